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
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/ops/tensors/autograd_node.h"
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
  NormParameters parameters;
  bool training;
  bool wants_gradient;
  std::shared_ptr<Branch> branch = nullptr;  // that the input was made on; null: the main stream
  bool ran = false;  // statistics are there, and the running ones have moved
  NormStatistics statistics = {};

  bool reads(const at::Tensor& tensor) const {
    return alias(tensor, input) || alias(tensor, parameters.weight) ||
           alias(tensor, parameters.bias);
  }

  at::Tensor empty_output() const {
    const at::NoGradGuard no_grad;
    return at::empty_like(input);
  }

  /// Statistics alone, for whoever computes the output on its way.
  void find_statistics() {
    if (!ran) batch_norm_statistics(statistics, input, parameters);
    ran = true;
  }

  NormedResidual as_residual() const { return {statistics, parameters.weight, parameters.bias}; }
};

struct NormFusion::Epilogue {
  at::Tensor factor = {};    // undefined: none
  at::Tensor residual = {};  // undefined: none
  /// Of a residual that is deferred, too: it is computed on the way. Null: it has values.
  std::shared_ptr<Norm> residual_norm = nullptr;

  bool empty() const { return !factor.defined() && !residual.defined(); }
};

class NormFusion::Node final : public TakesGradient,
                               public HasNormHistory,
                               public RecomputesOutput {
 public:
  Node(const Norm& norm, const Epilogue& epilogue)
      : statistics_(norm.statistics),
        parameters_(norm.parameters),
        has_factor_(epilogue.factor.defined()),
        has_residual_(epilogue.residual.defined()),
        behind_residual_(behind(epilogue.residual)),
        side_(norm.branch ? &norm.branch->side() : nullptr) {
    if (norm.branch && epilogue.empty()) branch_ = node_as<OnBranch>(norm.input.grad_fn());
  }

  /// What the output became; `relu_mask` may be undefined where backward recomputes it.
  /// Only now is anything saved: a node whose place another one takes saves nothing.
  void computed(const at::Tensor& input, const at::Tensor& factor, Activation activation,
                const at::Tensor& relu_mask) {
    input_ = autograd::SavedVariable(input, /*is_output=*/false);
    if (has_factor_) factor_ = autograd::SavedVariable(factor, /*is_output=*/false);
    activation_ = activation;
    has_relu_mask_ = relu_mask.defined();
    if (has_relu_mask_) relu_mask_ = autograd::SavedVariable(relu_mask, /*is_output=*/false);
  }

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    require_single_backward();
    const at::NoGradGuard no_grad;
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
    const at::Tensor relu_mask = has_relu_mask_ ? relu_mask_.unpack() : at::Tensor();
    const at::Tensor factor = has_factor_ ? factor_.unpack() : at::Tensor();
    const auto differentiate = [&] {
      return batch_norm_backward({.output_gradient = gradient,
                                  .added_gradient = added,
                                  .input = input,
                                  .relu_mask = relu_mask,
                                  .saved = statistics_,
                                  .parameters = parameters_,
                                  .activation = activation_,
                                  .has_residual = has_residual_,
                                  .want_input = task_should_compute_output(0),
                                  .factor = factor});
    };
    if (goes_on_on_branch())
      return {run_on_branch(differentiate, {gradient, added, input, relu_mask}), {}, {}};
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
    batch_norm_again(output, statistics_, input, parameters_, activation_);
    return output;
  }

  void release_variables() override {
    input_.reset_data();
    factor_.reset_data();
    relu_mask_.reset_data();
    left_ = {};
  }
  std::string name() const override { return "triaccel::NormFusion"; }
  NormHistory norm_history() const override {
    return {statistics_, parameters_.weight, parameters_.bias,
            activation_, has_factor_,        has_residual_};
  }

 private:
  /// Not where somebody would miss a gradient that does not go through the graph.
  bool goes_on_on_branch() {
    if (!branch_ || !task_should_compute_output(0)) return false;
    for (const at::Tensor& parameter : {parameters_.weight, parameters_.bias})
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
      leave_for_parameter(next_edge(1), parameters_.weight, {found.weight, work});
    if (task_should_compute_output(2))
      leave_for_parameter(next_edge(2), parameters_.bias, {found.bias, work});
    if (branch_->leave_on_branch({found.input, work})) return {};
    work.wait();
    return found.input;
  }

  autograd::SavedVariable input_;
  autograd::SavedVariable factor_;
  autograd::SavedVariable relu_mask_;
  bool has_relu_mask_ = false;
  NormStatistics statistics_;
  NormParameters parameters_;
  bool has_factor_, has_residual_;
  std::shared_ptr<TakesGradient> behind_residual_;  // the norm whose output it is; null: none
  std::shared_ptr<OnBranch> branch_;                // the node that made the input, if on a branch
  SideStreams* side_;                               // of that branch
  Activation activation_ = Activation::None;
};

class NormFusion::Operation final : public DeferredOperation {
 public:
  Operation(const NormFusion& fusion, std::shared_ptr<Norm> norm, Epilogue epilogue,
            NodePtrOf<Node> node)
      : fusion_(fusion),
        norm_(std::move(norm)),
        epilogue_(std::move(epilogue)),
        node_(std::move(node)) {}

  const std::shared_ptr<Norm>& norm() const { return norm_; }
  const Epilogue& epilogue() const { return epilogue_; }

  /// Another operation adds these values as they are now: the node stays that of the norm alone.
  void note_added_elsewhere() { added_elsewhere_ = true; }
  bool is_added_elsewhere() const { return added_elsewhere_; }

  /// In place, where gradients are not recorded, on a tensor that has a history.
  bool changes_history(bool in_place) const {
    return in_place && node_ && !at::GradMode::is_enabled();
  }

  void materialize(const at::Tensor& output) override { compute(output, Activation::None); }
  bool must_precede(const at::Tensor& tensor, bool writes) const override;
  bool has_side_effects() const override { return norm_->training && !norm_->ran; }
  void apply_side_effects() override { norm_->find_statistics(); }

  void compute(const at::Tensor& output, Activation activation);

 private:
  void run(const at::Tensor& output, Activation activation, const at::Tensor& relu_mask);

  const NormFusion& fusion_;
  std::shared_ptr<Norm> norm_;
  Epilogue epilogue_;
  NodePtrOf<Node> node_;  // null: no gradient is wanted
  bool added_elsewhere_ = false;
};

bool NormFusion::Operation::must_precede(const at::Tensor& tensor, bool writes) const {
  const NormParameters& parameters = norm_->parameters;
  if (alias(tensor, parameters.running_mean) || alias(tensor, parameters.running_variance))
    return true;
  if (!writes) return false;
  return alias(tensor, epilogue_.factor) || alias(tensor, epilogue_.residual) ||
         norm_->reads(tensor) ||
         (epilogue_.residual_norm && epilogue_.residual_norm->reads(tensor));
}

void NormFusion::Operation::compute(const at::Tensor& output, Activation activation) {
  const at::NoGradGuard no_grad;
  const bool keeps_mask = node_ && activation == Activation::Relu &&
                          (fusion_.options_.keep_relu_masks || !epilogue_.empty());
  const at::Tensor relu_mask = keeps_mask ? empty_relu_mask(norm_->input) : at::Tensor();
  run(output, activation, relu_mask);
  if (node_) node_->computed(norm_->input, epilogue_.factor, activation, relu_mask);
  if (!epilogue_.residual_norm) return;
  const std::shared_ptr<Operation> other = fusion_.find(epilogue_.residual);
  if (other && other->node_) other->node_->computed(other->norm_->input, {}, Activation::None, {});
}

void NormFusion::Operation::run(const at::Tensor& output, Activation activation,
                                const at::Tensor& relu_mask) {
  if (norm_->branch) norm_->branch->join();
  if (!norm_->training)
    return batch_norm_infer(output, norm_->input, norm_->parameters, epilogue_.residual,
                            activation);
  NormParameters once = norm_->parameters;
  if (norm_->ran) {
    once.running_mean.reset();
    once.running_variance.reset();
  }
  Norm* const other = epilogue_.residual_norm.get();
  if (other != nullptr && other->branch) other->branch->join();
  if (other != nullptr) other->find_statistics();
  batch_norm_train(output, norm_->statistics, norm_->input, once,
                   {.residual = other != nullptr ? other->input : epilogue_.residual,
                    .activation = activation,
                    .relu_mask = relu_mask,
                    .residual_norm = other != nullptr ? other->as_residual() : NormedResidual(),
                    .factor = epilogue_.factor});
  norm_->ran = true;
}

std::shared_ptr<NormFusion::Operation> NormFusion::find(const at::Tensor& tensor) const {
  return deferred_.find<Operation>(tensor);
}

void NormFusion::materialize_unless_norm(const at::Tensor& operand) {
  if (!find(operand)) deferred_.touch(operand, /*writes=*/false);
}

std::optional<at::Tensor> NormFusion::norm(const BatchNormCall& call,
                                           const std::shared_ptr<Branch>& branch) {
  if (!options_.fuse || !computes(call)) return {};
  const auto norm = std::make_shared<Norm>();
  norm->input = call.input;
  norm->parameters = {.weight = value_or_none(call.weight),
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
    const auto compute_statistics = [&] {
      make_room();
      norm->find_statistics();
      branch->keep({norm->statistics.mean, norm->statistics.inverse_deviation});
    };
    branch ? branch->run(compute_statistics, {}) : make_room();
  }
  const at::Tensor output = norm->empty_output();
  deferred_.add(output, operation_for(output, norm, {}));
  return output;
}

std::shared_ptr<NormFusion::Operation> NormFusion::operation_for(const at::Tensor& output,
                                                                 const std::shared_ptr<Norm>& norm,
                                                                 const Epilogue& epilogue) {
  NodePtrOf<Node> node;
  const at::Tensor& residual = epilogue.residual;
  const bool through_residual = residual.defined() && residual.requires_grad();
  if (at::GradMode::is_enabled() && norm->training && (norm->wants_gradient || through_residual)) {
    node = make_node<Node>(*norm, epilogue);
    autograd::edge_list edges(3);
    if (norm->wants_gradient)
      edges =
          autograd::collect_next_edges(norm->input, norm->parameters.weight, norm->parameters.bias);
    if (residual.defined()) edges.push_back(autograd::impl::gradient_edge(residual));
    node->set_next_edges(std::move(edges));
    autograd::set_history(output, node);
  }
  return std::make_shared<Operation>(*this, norm, epilogue, std::move(node));
}

std::optional<at::Tensor> NormFusion::activated(const at::Tensor& input, Activation activation,
                                                bool in_place) {
  const std::shared_ptr<Operation> normed = find(input);
  if (!normed || has_gradient_hooks(input) || normed->changes_history(in_place)) return {};
  if (!normed->epilogue().empty() && activation == Activation::Silu) return {};
  if (in_place) {
    if (!may_change_in_place(input)) return {};
    deferred_.remove(input);
    normed->compute(input, activation);
    return input;
  }
  // The input may still be asked for by itself, so it stays deferred.
  const at::Tensor output = normed->norm()->empty_output();
  operation_for(output, normed->norm(), normed->epilogue())->compute(output, activation);
  return output;
}

std::optional<at::Tensor> NormFusion::multiplied(const at::Tensor& left, const at::Tensor& right) {
  const bool left_is_norm = find(left) != nullptr;
  const at::Tensor& normed = left_is_norm ? left : right;
  const at::Tensor& factor = left_is_norm ? right : left;
  // Where all ReLU masks are kept, saved tensors may come back changed: a codec then sees the
  // product.
  if (options_.keep_relu_masks || normed.is_same(factor) || has_gradient_hooks(normed) ||
      !is_sample_factor(factor, normed) || (at::GradMode::is_enabled() && factor.requires_grad()))
    return {};
  deferred_.touch(factor, /*writes=*/false);
  const std::shared_ptr<Operation> operation = find(normed);
  if (!operation || !operation->epilogue().empty() || !operation->norm()->training) return {};
  const at::Tensor product = operation->norm()->empty_output();
  deferred_.add(product, operation_for(product, operation->norm(), {.factor = factor}));
  return product;
}

std::optional<at::Tensor> NormFusion::added(const at::Tensor& left, const at::Tensor& right,
                                            bool in_place) {
  if (left.is_same(right) || left.sizes() != right.sizes() ||
      left.scalar_type() != right.scalar_type() || left.strides() != right.strides())
    return {};
  for (const at::Tensor& operand : {left, right}) materialize_unless_norm(operand);
  const bool left_is_norm = find(left) != nullptr;
  if (!left_is_norm && (in_place || !find(right))) return {};
  const at::Tensor& normed = left_is_norm ? left : right;
  const at::Tensor& residual = left_is_norm ? right : left;
  const std::shared_ptr<Norm> residual_norm = fusable_residual(residual, *find(normed));
  if (!residual_norm) deferred_.touch(residual, /*writes=*/false);
  const std::shared_ptr<Operation> operation = find(normed);
  if (!operation || operation->epilogue().residual.defined() || has_gradient_hooks(normed) ||
      operation->changes_history(in_place))
    return {};
  const std::shared_ptr<Norm> norm = operation->norm();
  // Running statistics have no backward pass here, not even one for what is added.
  if (!norm->training && at::GradMode::is_enabled() && residual.requires_grad()) return {};
  if (in_place && !may_change_in_place(left)) return {};
  if (residual_norm) find(residual)->note_added_elsewhere();
  if (in_place) deferred_.remove(left);  // the tensor stays and gets a new node in the graph
  const at::Tensor sum = in_place ? left : norm->empty_output();
  deferred_.add(sum,
                operation_for(sum, norm, {operation->epilogue().factor, residual, residual_norm}));
  return sum;
}

bool NormFusion::may_change_in_place(const at::Tensor& output) {
  if (!find(output)->is_added_elsewhere()) return true;
  deferred_.touch(output, /*writes=*/true);  // with those that add it
  return false;
}

std::shared_ptr<NormFusion::Norm> NormFusion::fusable_residual(const at::Tensor& residual,
                                                               const Operation& normed) const {
  const std::shared_ptr<Operation> other = find(residual);
  if (!other || has_gradient_hooks(residual) || !other->epilogue().empty() ||
      other->norm() == normed.norm() || !other->norm()->training || !normed.norm()->training ||
      normed.epilogue().factor.defined())
    return nullptr;
  return other->norm();
}

}  // namespace triaccel
