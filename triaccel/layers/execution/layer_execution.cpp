#include "triaccel/layers/execution/layer_execution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/layers/convolution/pooled_maxima.h"
#include "triaccel/layers/execution/layer_nodes.h"
#include "triaccel/layers/fusion/channel_gates.h"

namespace triaccel {

LayerExecution::LayerExecution(std::vector<at::Tensor> weights, KernelChoices kernels,
                               at::Tensor scales, const LayerExecutionOptions& options)
    : weights_(std::move(weights)),
      kernels_(std::move(kernels)),
      scales_(std::move(scales)),
      options_(options),
      norms_({.fuse = options.fuse, .keep_relu_masks = options.keep_relu_masks}, deferred_),
      excitations_(options.fuse && !options.keep_relu_masks, deferred_,
                   [this](std::int64_t layer, const auto& bias) { note_use(layer, bias); }),
      uses_(weights_.size()),
      used_apart_(weights_.size()) {
  if (options.prepare_weights) prepared_ = std::make_unique<PreparedWeights>(weights_);
  if (kernels_.layers.empty()) kernels_.layers.resize(weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i)
    by_address_.emplace(weights_[i].const_data_ptr(), static_cast<std::int64_t>(i));
  expect_other_gradients();
  follow({weights_.size(), LayerPlan{}}, 1);
}

LayerExecution::~LayerExecution() {
  for (const auto& [index, hook] : hooks_) weights_[index].remove_hook(hook);
}

void LayerExecution::expect_other_gradients() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!weights_[i].requires_grad()) continue;
    const unsigned hook = weights_[i].register_hook([this, i](const at::Tensor&) {
      if (in_step_) used_apart_[i] = true;
      if (side_ != nullptr) side_->updates.join();  // what the layer left may come from there
      at::Tensor& held = weights_[i].mutable_grad();
      const at::NoGradGuard no_grad;
      if (held.defined()) held = wide_gradient(held, scales_, static_cast<std::int64_t>(i));
    });
    hooks_.emplace_back(i, hook);
  }
}

void LayerExecution::follow(const std::vector<LayerPlan>& layers, std::int64_t passes) {
  if (layers == followed_ && (passes > 1) == accumulates_) return;
  ensure(layers.size() == weights_.size(), "a plan has an entry for every layer");
  followed_ = layers;
  accumulates_ = passes > 1;
  const bool any_low = std::ranges::any_of(
      layers, [](const LayerPlan& layer) { return bytes_per_element(layer.compute) < 4; });
  carrier_ = !any_low ? at::kFloat : options_.device_has_bf16 ? at::kBFloat16 : at::kHalf;
  arithmetic_.clear();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    arithmetic_.push_back({.layer = layer,
                           .precision = layers[i].compute,
                           .kernel = kernels_.of(layer, layers[i].compute),
                           .carrier = carrier_,
                           .accumulate = accumulates_,
                           .scales = scales_,
                           .prepared = prepared_.get(),
                           .recompute_norms = options_.recompute_norms});
  }
  if (prepared_) prepared_->expect_nothing();
}

std::int64_t LayerExecution::layer_of(const at::Tensor& weight) const {
  const auto found = by_address_.find(weight.const_data_ptr());
  return found == by_address_.end() ? -1 : found->second;
}

bool LayerExecution::is_whole(const at::Tensor& view, std::int64_t layer) const {
  const at::Tensor& weight = weights_[static_cast<std::size_t>(layer)];
  return view.sizes() == weight.sizes() && view.strides() == weight.strides();
}

bool LayerExecution::owns(const at::Tensor& matrix) const {
  const std::int64_t layer = layer_of(matrix);
  return layer >= 0 && matrix.dim() == 2 && is_whole(matrix.t(), layer);
}

at::Tensor LayerExecution::convolution(const ConvolutionCall& call) {
  const std::int64_t layer = layer_of(call.weight);
  if (layer < 0 || !is_whole(call.weight, layer)) return OperatorHooks::convolution(call);
  note_use(layer, call.bias);
  const std::shared_ptr<Branch> branch = branch_for(call, layer);
  const bool may_part = !branch && branches_.may_part_behind(call.input);
  // Whoever goes beside reads what is prepared, too.
  if (may_part && prepared_) prepared_->materialize();
  at::Tensor output = convolution_layer(call, weights_[static_cast<std::size_t>(layer)],
                                        arithmetic_[static_cast<std::size_t>(layer)], branch.get());
  if (branch) branches_.note_made(branch, call.input, output);
  if (may_part) branches_.note_reader(call.input);
  return output;
}

std::shared_ptr<Branch> LayerExecution::branch_for(const ConvolutionCall& call,
                                                   std::int64_t layer) const {
  const bool computes_bias = call.bias && call.bias->defined() && !call.bias->is_leaf();
  const bool used_before = uses_[static_cast<std::size_t>(layer)] > 1;  // what is prepared may go
  return computes_bias || used_before ? nullptr : branches_.at(call.input);
}

at::Tensor LayerExecution::linear(const LinearCall& call) {
  const std::int64_t layer = layer_of(call.weight);
  if (layer < 0 || !is_whole(call.weight, layer)) return OperatorHooks::linear(call);
  note_use(layer, call.bias);
  return linear_layer(call, weights_[static_cast<std::size_t>(layer)],
                      arithmetic_[static_cast<std::size_t>(layer)]);
}

at::Tensor LayerExecution::embedding(const at::Tensor& weight, const at::Tensor& indices,
                                     std::int64_t padding_idx, bool scale_grad_by_freq,
                                     bool sparse) {
  return OperatorHooks::embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
      .to(carrier_);
}

bool LayerExecution::moves_for_the_first_time(const BatchNormCall& call) {
  if (!call.running_mean || !call.running_mean->defined()) return true;
  return moved_.insert(call.running_mean->const_data_ptr()).second;
}

at::Tensor LayerExecution::batch_norm(const BatchNormCall& call) {
  moves_for_the_first_time(call);
  if (auto waiting = norms_.norm(call)) return *waiting;
  return OperatorHooks::batch_norm(call);
}

std::optional<at::Tensor> LayerExecution::joined_norm(const BatchNormCall& call) {
  const std::shared_ptr<Branch> branch = branches_.maker_of(call.input);
  // The main stream may move the same statistics after the ways have parted.
  if (!branch || !moves_for_the_first_time(call)) return {};
  for (const auto& statistics : {call.running_mean, call.running_var})
    if (statistics && statistics->defined()) branches_.note_written(*branch, *statistics);
  return norms_.norm(call, branch);
}

std::optional<at::Tensor> LayerExecution::activation(const at::Tensor& input, Activation kind,
                                                     bool in_place) {
  if (auto joined = norms_.activated(input, kind, in_place)) return joined;
  return excitations_.activated(input, kind, in_place);
}

std::optional<at::Tensor> LayerExecution::sigmoid(const at::Tensor& input) {
  return excitations_.gated(input);
}

std::optional<at::Tensor> LayerExecution::joined_convolution(const ConvolutionCall& call) {
  const std::int64_t layer = layer_of(call.weight);
  if (layer < 0 || !is_whole(call.weight, layer)) return {};
  branches_.touch(call.input, /*writes=*/false);
  return excitations_.convolution(call, weights_[static_cast<std::size_t>(layer)],
                                  arithmetic_[static_cast<std::size_t>(layer)]);
}

std::optional<at::Tensor> LayerExecution::sum(const at::Tensor& left, const at::Tensor& right,
                                              bool in_place) {
  for (const at::Tensor& operand : {left, right}) branches_.touch(operand, /*writes=*/false);
  return norms_.added(left, right, in_place);
}

std::optional<at::Tensor> LayerExecution::joined_product(const at::Tensor& left,
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

std::optional<at::Tensor> LayerExecution::max_pool(const at::Tensor& map, const PoolGeometry& how) {
  return options_.fuse ? pooled_maxima(map, how) : std::nullopt;
}

bool LayerExecution::count_up(const at::Tensor& counter) {
  if (!options_.fuse || counter.scalar_type() != at::kLong || counter.dim() != 0 ||
      counter.requires_grad())
    return false;
  if (counts(counter)) add_up_counters();  // a norm that is used twice
  counters_.push_back(counter);
  return true;
}

void LayerExecution::touch(const at::Tensor& tensor, bool writes) {
  branches_.touch(tensor, writes);
  deferred_.touch(tensor, writes);
  if (counts(tensor)) add_up_counters();
}

bool LayerExecution::counts(const at::Tensor& tensor) const {
  return std::ranges::any_of(counters_, [&](const at::Tensor& c) { return c.is_same(tensor); });
}

void LayerExecution::add_up_counters() {
  const at::NoGradGuard no_grad;
  if (!counters_.empty()) at::_foreach_add_(std::exchange(counters_, {}), 1);
}

void LayerExecution::begin_step(SideStreams* side, GradientListener* listener) {
  in_step_ = true;
  side_ = side;
  SideStream* const updates = side != nullptr ? &side->updates : nullptr;
  for (LayerArithmetic& layer : arithmetic_) {
    layer.side = updates;
    layer.listener = listener;
  }
  if (prepared_) prepared_->make(updates);
}

void LayerExecution::note_use(std::int64_t layer, const std::optional<at::Tensor>& bias) {
  ++uses_[static_cast<std::size_t>(layer)];
  if (bias && bias->defined()) shares_a_bias_ |= !biases_.insert(bias->const_data_ptr()).second;
}

bool LayerExecution::used_each_weight_once() const {
  if (shares_a_bias_) return false;
  for (std::size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i] > 1 || (uses_[i] == 1 && used_apart_[i])) return false;
  return true;
}

void LayerExecution::end_step() {
  in_step_ = false;
  side_ = nullptr;
  if (prepared_) prepared_->drop();
  forget_waiting();  // a pass that failed may have left some
}

void LayerExecution::forget_waiting() {
  deferred_.clear();
  branches_.forget_all();
  moved_.clear();
  counters_.clear();
}

void LayerExecution::begin_pass() {
  forget_waiting();
  // Sums over several passes are autograd's, on the main stream; codecs read what is saved there.
  if (options_.fuse && !options_.keep_relu_masks && !accumulates_) branches_.begin_pass(side_);
  std::ranges::fill(uses_, 0);
  biases_.clear();
  shares_a_bias_ = false;
}

void LayerExecution::end_pass() {
  without_hooks([this] {
    deferred_.materialize_all();
    branches_.end_pass();
    if (counters_.empty()) return;
    // Beside the rest where no later pass of the step counts on.
    if (side_ != nullptr && !accumulates_)
      side_->updates.run([this] { add_up_counters(); }, {});
    else
      add_up_counters();
  });
}

}  // namespace triaccel
