#include "triaccel/layers/fusion/norm_fusion.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <utility>

#include "triaccel/layers/convolution/kept_map.h"
#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/layers/scope/gradient_hooks.h"
#include "triaccel/ops/norm/norm_history.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

at::Tensor value_or_none(const std::optional<at::Tensor>& tensor) {
  return tensor ? *tensor : at::Tensor();
}

bool float_or_none(const std::optional<at::Tensor>& tensor) {
  return !tensor || !tensor->defined() || tensor->scalar_type() == at::kFloat;
}

bool wants_gradient(const BatchNormCall& call) {
  return at::GradMode::is_enabled() &&
         autograd::compute_requires_grad(call.input, value_or_none(call.weight),
                                         value_or_none(call.bias));
}

/// Whether our kernels compute this call, and its gradient where one is wanted.
bool computes(const BatchNormCall& call) {
  if (!fuses_batch_norm(call.input) || !float_or_none(call.weight) || !float_or_none(call.bias) ||
      !float_or_none(call.running_mean) || !float_or_none(call.running_var))
    return false;
  const bool has_statistics = call.running_mean && call.running_mean->defined();
  if (!call.training) return has_statistics && !wants_gradient(call);
  return call.input.numel() / call.input.size(1) > 1;  // libtorch refuses a single value
}

bool alias(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.is_alias_of(b);
}

}  // namespace

struct NormFusion::Norm {
  at::Tensor input;
  NormParameters how;
  bool training;
  bool wants_gradient;
  std::shared_ptr<Branch> branch = nullptr;  // that the input was made on; null: the main stream
  bool ran = false;  // statistics are there, and the running ones have moved
  NormStatistics statistics = {};

  bool reads(const at::Tensor& tensor) const {
    return alias(tensor, input) || alias(tensor, how.weight) || alias(tensor, how.bias);
  }

  at::Tensor empty_output() const {
    const at::NoGradGuard no_grad;
    return at::empty_like(input);
  }

  /// Statistics alone, for whoever finds the output on its way.
  void find_statistics() {
    if (!ran) batch_norm_statistics(statistics, input, how);
    ran = true;
  }

  NormedResidual as_residual() const { return {statistics, how.weight, how.bias}; }

  void compute(const at::Tensor& output, const Joined& joined, Activation activation,
               const at::Tensor& gates) {
    if (branch) branch->join();
    if (!training) return batch_norm_infer(output, input, how, joined.residual, activation);
    NormParameters once = how;
    if (ran) {
      once.running_mean.reset();
      once.running_variance.reset();
    }
    Norm* const other = joined.residual_norm.get();
    if (other != nullptr && other->branch) other->branch->join();
    if (other != nullptr) other->find_statistics();
    batch_norm_train(output, statistics, input, once,
                     other != nullptr ? other->input : joined.residual, activation, gates,
                     other != nullptr ? other->as_residual() : NormedResidual(), joined.factor);
    ran = true;
  }
};

class NormFusion::Node final : public TakesGradient,
                               public HasNormHistory,
                               public RecomputesOutput {
 public:
  Node(const Norm& norm, const Joined& joined)
      : statistics_(norm.statistics),
        how_(norm.how),
        has_factor_(joined.factor.defined()),
        has_residual_(joined.residual.defined()),
        behind_residual_(behind(joined.residual)),
        side_(norm.branch ? &norm.branch->side() : nullptr) {
    if (norm.branch && !joined.any())
      branch_ = std::dynamic_pointer_cast<OnBranch>(norm.input.grad_fn());
  }

  /// What the output became; `gates` may be undefined where backward finds them from the input.
  /// Only now is anything saved: a node whose place another one takes saves nothing.
  void computed(const at::Tensor& input, const at::Tensor& factor, Activation activation,
                const at::Tensor& gates) {
    input_ = autograd::SavedVariable(input, /*is_output=*/false);
    if (has_factor_) factor_ = autograd::SavedVariable(factor, /*is_output=*/false);
    activation_ = activation;
    has_gates_ = gates.defined();
    if (has_gates_) gates_ = autograd::SavedVariable(gates, /*is_output=*/false);
  }

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;  // once only: curvature is probed without fusion
    at::Tensor gradient = std::move(gradients[0]);
    auto [added, maker] = std::exchange(left_, {});
    if (!gradient.defined() && !added.defined()) return autograd::variable_list(num_outputs());
    maker.wait();
    const at::Tensor input = input_.unpack();
    if (!gradient.defined()) {
      std::swap(gradient, added);
      if (gradient.sizes() != input.sizes())
        gradient = scatter_even_pixels(gradient, input.sizes());
    }
    const at::Tensor gates = has_gates_ ? gates_.unpack() : at::Tensor();
    const at::Tensor factor = has_factor_ ? factor_.unpack() : at::Tensor();
    const auto differentiate = [&] {
      return batch_norm_backward(gradient, added, input, gates, statistics_, how_, activation_,
                                 has_residual_, task_should_compute_output(0), factor);
    };
    if (goes_on_on_branch())
      return {run_on_branch(differentiate, {gradient, added, input, gates}), {}, {}};
    NormGradients found = differentiate();
    autograd::variable_list all = {std::move(found.input), std::move(found.weight),
                                   std::move(found.bias)};
    if (!has_residual_) return all;
    const bool left = behind_residual_ && behind_residual_->leave({found.residual});
    all.push_back(left ? at::Tensor() : std::move(found.residual));
    return all;
  }

  bool can_recompute() const override { return !has_factor_ && !has_residual_; }
  at::Tensor output_again() const override {
    const at::NoGradGuard no_grad;
    const at::Tensor input = input_.unpack();
    at::Tensor output = at::empty_like(input);
    batch_norm_again(output, statistics_, input, how_, activation_);
    return output;
  }

  void release_variables() override {
    input_.reset_data();
    factor_.reset_data();
    gates_.reset_data();
    left_ = {};
  }
  std::string name() const override { return "triaccel::NormFusion"; }
  NormHistory norm_history() const override {
    return {statistics_, how_.weight, how_.bias, activation_, has_factor_, has_residual_};
  }

 private:
  /// Not where somebody would miss a gradient that does not go through the graph.
  bool goes_on_on_branch() {
    if (!branch_ || !task_should_compute_output(0)) return false;
    for (const at::Tensor& parameter : {how_.weight, how_.bias})
      if (parameter.defined() && !parameter.is_leaf()) return false;
    return std::ranges::none_of(next_edges(), [](const autograd::Edge& edge) {
      return edge.is_valid() && has_gradient_hooks(*edge.function);
    });
  }

  /// On the branch's stream, where the node of the input goes on, unless it has a gradient already:
  /// the input's is then waited for and returned.
  template <typename Differentiate>
  at::Tensor run_on_branch(const Differentiate& differentiate, std::vector<at::Tensor> reads) {
    std::erase_if(reads, [](const at::Tensor& tensor) { return !tensor.defined(); });
    NormGradients found;
    const SideStream::Work work =
        side_->branches.run([&] { found = differentiate(); }, std::move(reads));
    side_->updates.come_after(work);
    if (task_should_compute_output(1))
      leave_for_parameter(next_edge(1), how_.weight, {found.weight, work});
    if (task_should_compute_output(2))
      leave_for_parameter(next_edge(2), how_.bias, {found.bias, work});
    if (branch_->leave_on_branch({found.input, work})) return {};
    work.wait();
    return found.input;
  }

  autograd::SavedVariable input_;
  autograd::SavedVariable factor_;
  autograd::SavedVariable gates_;  // of a ReLU
  bool has_gates_ = false;
  NormStatistics statistics_;
  NormParameters how_;
  bool has_factor_, has_residual_;
  std::shared_ptr<TakesGradient> behind_residual_;  // the norm whose output it is; null: none
  std::shared_ptr<OnBranch> branch_;                // the node that made the input, if on a branch
  SideStreams* side_;                               // of that branch
  Activation activation_ = Activation::None;
};

std::optional<at::Tensor> NormFusion::norm(const BatchNormCall& call,
                                           const std::shared_ptr<Branch>& branch) {
  if (!options_.fuse || !computes(call)) return {};
  const auto norm = std::make_shared<Norm>();
  norm->input = call.input;
  norm->how = {.weight = value_or_none(call.weight),
               .bias = value_or_none(call.bias),
               .running_mean = value_or_none(call.running_mean),
               .running_variance = value_or_none(call.running_var),
               .momentum = call.momentum,
               .eps = call.eps};
  norm->training = call.training;
  norm->wants_gradient = wants_gradient(call);
  norm->branch = branch;
  if (call.training) {
    const auto floats = call.input.options().dtype(at::kFloat);
    const auto make_room = [&] {
      norm->statistics = {.mean = at::empty({call.input.size(1)}, floats),
                          .inverse_deviation = at::empty({call.input.size(1)}, floats)};
    };
    const auto find = [&] {
      make_room();
      norm->find_statistics();
      branch->keep({norm->statistics.mean, norm->statistics.inverse_deviation});
    };
    branch ? branch->run(find, {}) : make_room();
  }
  const at::Tensor output = norm->empty_output();
  wait(output, norm, {});
  return output;
}

void NormFusion::wait(const at::Tensor& output, const std::shared_ptr<Norm>& norm,
                      const Joined& joined) {
  forget_expired();
  std::shared_ptr<Node> node;
  const at::Tensor& residual = joined.residual;
  const bool through_residual = residual.defined() && residual.requires_grad();
  if (at::GradMode::is_enabled() && norm->training && (norm->wants_gradient || through_residual)) {
    node = std::make_shared<Node>(*norm, joined);
    autograd::edge_list edges(3);
    if (norm->wants_gradient)
      edges = autograd::collect_next_edges(norm->input, norm->how.weight, norm->how.bias);
    if (residual.defined()) edges.push_back(autograd::impl::gradient_edge(residual));
    node->set_next_edges(std::move(edges));
    autograd::set_history(output, node);
  }
  waiting_.push_back({.output = c10::weak_intrusive_ptr<c10::TensorImpl>(output.getIntrusivePtr()),
                      .norm = norm,
                      .node = std::move(node),
                      .joined = joined});
}

bool NormFusion::changes_history(const Waiting& waiting, bool in_place) {
  return in_place && waiting.node && !at::GradMode::is_enabled();
}

void NormFusion::forget_expired() {
  std::erase_if(waiting_, [](const Waiting& waiting) {
    return waiting.output.expired() && (waiting.norm->ran || !waiting.norm->training);
  });
}

NormFusion::Place NormFusion::find(const at::Tensor& tensor) {
  return std::ranges::find_if(waiting_, [&](const Waiting& waiting) {
    return !waiting.output.expired() &&
           waiting.output._unsafe_get_target() == tensor.unsafeGetTensorImpl();
  });
}

void NormFusion::compute(Place place, const at::Tensor& output, Activation activation) {
  const Waiting now = std::move(*place);
  waiting_.erase(place);
  const at::NoGradGuard no_grad;
  const bool keeps_gates =
      now.node && activation == Activation::Relu && (options_.gate_all_norms || now.joined.any());
  const at::Tensor gates = keeps_gates ? empty_norm_gates(now.norm->input) : at::Tensor();
  now.norm->compute(output, now.joined, activation, gates);
  if (now.node) now.node->computed(now.norm->input, now.joined.factor, activation, gates);
  if (!now.joined.residual_norm) return;
  const Place other = find(now.joined.residual);
  if (other != waiting_.end() && other->node)
    other->node->computed(other->norm->input, {}, Activation::None, {});
}

std::optional<at::Tensor> NormFusion::activated(const at::Tensor& input, Activation activation,
                                                bool in_place) {
  const Place place = find(input);
  if (place == waiting_.end() || has_gradient_hooks(input) || changes_history(*place, in_place))
    return {};
  if (place->joined.any() && activation == Activation::Silu) return {};
  if (in_place) {
    compute(place, input, activation);
    return input;
  }
  // The input may still be asked for by itself, so it goes on waiting.
  const std::shared_ptr<Norm> norm = place->norm;
  const at::Tensor output = norm->empty_output();
  wait(output, norm, Joined(place->joined));
  compute(std::prev(waiting_.end()), output, activation);
  return output;
}

std::optional<at::Tensor> NormFusion::multiplied(const at::Tensor& left, const at::Tensor& right) {
  const bool left_waits = find(left) != waiting_.end();
  const at::Tensor& normed = left_waits ? left : right;
  const at::Tensor& factor = left_waits ? right : left;
  // What is saved may come back changed where all gates are kept: a codec then sees the product.
  if (options_.gate_all_norms || normed.is_same(factor) || has_gradient_hooks(normed) ||
      !is_sample_factor(factor, normed) || (at::GradMode::is_enabled() && factor.requires_grad()))
    return {};
  touch(factor, /*writes=*/false);
  const Place place = find(normed);
  if (place == waiting_.end() || place->joined.any() || !place->norm->training) return {};
  const std::shared_ptr<Norm> norm = place->norm;
  const at::Tensor product = norm->empty_output();
  wait(product, norm, {.factor = factor});
  return product;
}

std::optional<at::Tensor> NormFusion::added(const at::Tensor& left, const at::Tensor& right,
                                            bool in_place) {
  if (left.is_same(right) || left.sizes() != right.sizes() ||
      left.scalar_type() != right.scalar_type() || left.strides() != right.strides())
    return {};
  const bool left_waits = find(left) != waiting_.end();
  if (!left_waits && (in_place || find(right) == waiting_.end())) return {};
  const at::Tensor& normed = left_waits ? left : right;
  const at::Tensor& residual = left_waits ? right : left;
  const std::shared_ptr<Norm> residual_norm = joined_residual(residual, *find(normed));
  if (!residual_norm) touch(residual, /*writes=*/false);
  const Place place = find(normed);
  if (place == waiting_.end() || place->joined.residual.defined() || has_gradient_hooks(normed) ||
      changes_history(*place, in_place))
    return {};
  // Running statistics have no backward pass here, not even one for what is added.
  if (!place->norm->training && at::GradMode::is_enabled() && residual.requires_grad()) return {};
  const std::shared_ptr<Norm> norm = place->norm;
  const Joined joined = {place->joined.factor, residual, residual_norm};
  if (in_place) waiting_.erase(place);  // the tensor stays and gets a new place in the graph
  const at::Tensor sum = in_place ? left : norm->empty_output();
  wait(sum, norm, joined);
  return sum;
}

std::shared_ptr<NormFusion::Norm> NormFusion::joined_residual(const at::Tensor& residual,
                                                              const Waiting& normed) {
  const Place place = find(residual);
  if (place == waiting_.end() || has_gradient_hooks(residual) || place->joined.any() ||
      place->norm == normed.norm || !place->norm->training || !normed.norm->training ||
      normed.joined.factor.defined())
    return nullptr;
  return place->norm;
}

void NormFusion::touch(const at::Tensor& tensor, bool writes) {
  forget_expired();
  if (waiting_.empty() || !tensor.defined()) return;
  // Whoever writes to what a waiting norm will read, or looks at what it will write, makes it be
  // computed first.
  const auto concerns = [&](const Waiting& waiting) {
    const NormParameters& how = waiting.norm->how;
    if (alias(tensor, how.running_mean) || alias(tensor, how.running_variance)) return true;
    if (!writes) return false;
    const Joined& joined = waiting.joined;
    return alias(tensor, joined.factor) || alias(tensor, joined.residual) ||
           waiting.norm->reads(tensor) ||
           (joined.residual_norm && joined.residual_norm->reads(tensor));
  };
  for (Place place = std::ranges::find_if(waiting_, concerns); place != waiting_.end();
       place = std::ranges::find_if(waiting_, concerns))
    materialize(place);
  const Place place = find(tensor);
  if (place != waiting_.end()) compute(place, tensor, Activation::None);
}

void NormFusion::materialize(Place place) {
  if (const auto output = place->output.lock())
    return compute(place, at::Tensor(output), Activation::None);
  // Nobody holds the output any more; the running statistics move all the same.
  const std::shared_ptr<Norm> norm = std::move(place->norm);
  waiting_.erase(place);
  if (norm->training && !norm->ran) norm->find_statistics();
}

void NormFusion::materialize_all() {
  while (!waiting_.empty()) materialize(waiting_.begin());
}

}  // namespace triaccel
