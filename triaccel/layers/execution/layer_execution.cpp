#include "triaccel/layers/execution/layer_execution.h"

#include <ATen/ATen.h>

#include <utility>

#include "triaccel/layers/execution/layer_nodes.h"
#include "triaccel/layers/fusion/channel_gates.h"

namespace triaccel {
namespace {

using Statistics = std::optional<at::Tensor>;

BatchNormCall with_statistics(const BatchNormCall& call, const Statistics& mean,
                              const Statistics& variance) {
  return {call.input, call.weight,   call.bias,     mean,
          variance,   call.training, call.momentum, call.eps};
}

Statistics copy_of(const Statistics& statistics) {
  return statistics && statistics->defined() ? Statistics(statistics->clone()) : std::nullopt;
}

}  // namespace

LayerExecution::LayerExecution(const std::vector<at::Tensor>& weights, KernelChoices kernels,
                               const at::Tensor& scales, const LayerExecutionOptions& options)
    : options_(options),
      others_(std::make_shared<OtherGradients>(weights.size(), scales)),
      layers_(weights, std::move(kernels), scales, options, others_),
      uses_(weights.size(), others_),
      norms_({.fuse = options.fuse, .keep_relu_masks = options.keep_relu_masks}, deferred_),
      excitations_(options.fuse && !options.keep_relu_masks, deferred_, uses_) {}

at::Tensor LayerExecution::convolution(const ConvolutionCall& call) {
  const Layer* const layer = layers_.find(call.weight);
  if (layer == nullptr) return OperatorHooks::convolution(call);
  uses_.note(layer->number, call.bias);
  const std::shared_ptr<Branch> branch = branch_for(call, layer->number);
  const bool may_part = !branch && branches_.may_part_behind(call.input);
  if (may_part) layers_.join_copies();  // a branch reads the copies, too
  at::Tensor output = convolution_layer(call, *layer, branch.get());
  if (branch) branches_.note_made(branch, call.input, output);
  if (may_part) branches_.note_reader(call.input);
  return output;
}

std::shared_ptr<Branch> LayerExecution::branch_for(const ConvolutionCall& call,
                                                   std::int64_t layer) const {
  const bool computes_bias = call.bias && call.bias->defined() && !call.bias->is_leaf();
  // The copy of a weight that is used twice may be dropped.
  return computes_bias || uses_.is_repeated(layer) ? nullptr : branches_.at(call.input);
}

at::Tensor LayerExecution::linear(const LinearCall& call) {
  const Layer* const layer = layers_.find(call.weight);
  if (layer == nullptr) return OperatorHooks::linear(call);
  uses_.note(layer->number, call.bias);
  return linear_layer(call, *layer);
}

at::Tensor LayerExecution::embedding(const at::Tensor& weight, const at::Tensor& indices,
                                     std::int64_t padding_idx, bool scale_grad_by_freq,
                                     bool sparse) {
  return OperatorHooks::embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
      .to(layers_.carrier());
}

at::Tensor LayerExecution::batch_norm(const BatchNormCall& call) {
  if (again_ && call.training) return batch_norm_again(call);
  branches_.note_norm(call);
  if (auto deferred = norms_.norm(call)) return *deferred;
  return OperatorHooks::batch_norm(call);
}

at::Tensor LayerExecution::batch_norm_again(const BatchNormCall& call) {
  const Statistics none;
  if (auto deferred = norms_.norm(with_statistics(call, none, none))) return *deferred;
  // libtorch saves them, too.
  const Statistics mean = copy_of(call.running_mean), variance = copy_of(call.running_var);
  return OperatorHooks::batch_norm(with_statistics(call, mean, variance));
}

std::optional<at::Tensor> LayerExecution::fused_norm(const BatchNormCall& call) {
  const std::shared_ptr<Branch> branch = branches_.branch_for(call);
  return branch ? norms_.norm(call, branch) : std::nullopt;
}

std::optional<at::Tensor> LayerExecution::activation(const at::Tensor& input, Activation kind,
                                                     bool in_place) {
  if (auto fused = norms_.activated(input, kind, in_place)) return fused;
  return excitations_.activated(input, kind, in_place);
}

std::optional<at::Tensor> LayerExecution::sigmoid(const at::Tensor& input) {
  return excitations_.gated(input);
}

std::optional<at::Tensor> LayerExecution::fused_convolution(const ConvolutionCall& call) {
  const Layer* const layer = layers_.find(call.weight);
  if (layer == nullptr) return {};
  branches_.touch(call.input, /*writes=*/false);
  return excitations_.convolution(call, *layer);
}

std::optional<at::Tensor> LayerExecution::sum(const at::Tensor& left, const at::Tensor& right,
                                              bool in_place) {
  for (const at::Tensor& operand : {left, right}) branches_.touch(operand, /*writes=*/false);
  return norms_.added(left, right, in_place);
}

std::optional<at::Tensor> LayerExecution::fused_product(const at::Tensor& left,
                                                        const at::Tensor& right) {
  for (const at::Tensor& operand : {left, right}) branches_.touch(operand, /*writes=*/false);
  return norms_.multiplied(left, right);
}

std::optional<at::Tensor> LayerExecution::product(const at::Tensor& left, const at::Tensor& right) {
  return options_.fuse ? gated_channels(left, right, options_.recompute_norms) : std::nullopt;
}

std::optional<at::Tensor> LayerExecution::mean_of_channels(const at::Tensor& map) {
  return options_.fuse ? triaccel::mean_of_channels(map) : std::nullopt;
}

std::optional<at::Tensor> LayerExecution::max_pool(const at::Tensor& map,
                                                   const PoolGeometry& geometry) {
  return options_.fuse ? pooled_maxima(map, geometry) : std::nullopt;
}

bool LayerExecution::count_up(const at::Tensor& counter) {
  if (again_) return BatchCounters::is_counter(counter);
  return options_.fuse && counters_.count_up(counter);
}

bool LayerExecution::has_pending() const {
  return !deferred_.empty() || branches_.has_pending() || !counters_.empty();
}

void LayerExecution::touch(const at::Tensor& tensor, bool writes) {
  branches_.touch(tensor, writes);
  deferred_.touch(tensor, writes);
  counters_.touch(tensor);
}

void LayerExecution::begin_step(SideStreams* side, GradientListener* listener) {
  side_ = side;
  others_->begin_step(side != nullptr ? &side->updates : nullptr);
  layers_.begin_step(side != nullptr ? &side->updates : nullptr, listener);
}

void LayerExecution::end_step() {
  side_ = nullptr;
  others_->end_step();
  layers_.end_step();
  drop_pending();  // a pass that failed may have left some
}

void LayerExecution::drop_pending() {
  deferred_.clear();
  branches_.clear();
  counters_.clear();
}

void LayerExecution::begin_pass() {
  drop_pending();
  // Sums over several passes are autograd's, on the main stream; codecs read what is saved there.
  if (options_.fuse && options_.branches && !options_.keep_relu_masks && !layers_.accumulates())
    branches_.begin_pass(side_);
  uses_.begin_pass();
}

void LayerExecution::finish_deferred() {
  without_hooks([this] { deferred_.materialize_all(); });
}

void LayerExecution::run_again(const std::function<void()>& forward) {
  if (again_) return forward();
  const OperatorScope scope(*this);
  const auto done = [this](const void*) {
    again_ = false;
    uses_.count(true);
    deferred_.clear();  // a pass that failed may have left some
  };
  const std::unique_ptr<LayerExecution, decltype(done)> restore(this, done);
  again_ = true;
  uses_.count(false);
  forward();
  finish_deferred();
}

std::function<void(const std::function<void()>&)> LayerExecution::again() {
  return [weak = std::weak_ptr(self_)](const std::function<void()>& forward) {
    const auto self = weak.lock();
    self ? (*self)->run_again(forward) : forward();
  };
}

void LayerExecution::end_pass() {
  without_hooks([this] {
    deferred_.materialize_all();
    branches_.end_pass();
    if (counters_.empty()) return;
    // On the side stream where no later pass of the step counts on.
    if (side_ != nullptr && !layers_.accumulates())
      side_->updates.run([this] { counters_.add_up(); }, {});
    else
      counters_.add_up();
  });
}

}  // namespace triaccel
