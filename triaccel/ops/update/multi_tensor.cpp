#include "triaccel/ops/update/multi_tensor.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/update/restore_if_skipped.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

constexpr std::int64_t kMomentsBytes = sizeof(kernels::LayerMoments);

kernels::LayerMoments* moments_of(std::string_view who, const at::Tensor& moments,
                                  const at::Device& device) {
  check_contiguous(who, "moments", moments, device, at::kByte, {-1});
  require(moments.numel() % kMomentsBytes == 0, who, "moments must have a multiple of ",
          kMomentsBytes, " bytes, got ", moments.numel());
  return reinterpret_cast<kernels::LayerMoments*>(moments.mutable_data_ptr<std::uint8_t>());
}

/// The scratch holds the tickets, one per layer, and then the chunks.
constexpr std::int64_t kChunkBytes = sizeof(kernels::ChunkMoments);

std::int64_t ticket_bytes(const TensorBundle& bundle) {
  return (bundle.layer_count() + 1) / 2 * 8;  // 4 per layer, and chunks start at multiples of 8
}

void check_pair(std::string_view who, const at::Tensor& live, const at::Tensor& saved,
                const at::Device& device) {
  require(live.defined(), who, "a tensor to restore is undefined");
  check_tensor(who, "a tensor to restore", live, device, live.scalar_type());
  check_tensor(who, "a saved copy", saved, device, live.scalar_type());
  require(live.sizes() == saved.sizes() && same_memory_order(live, saved) &&
              live.is_non_overlapping_and_dense(),
          who, "a saved copy must have the shape and memory order of its dense tensor, got ",
          saved.sizes(), " for ", live.sizes(), "; make it with empty_like()");
  require(live.nbytes() % sizeof(float) == 0, who, "a tensor of ", live.nbytes(),
          " bytes does not hold whole 32-bit words");
}

}  // namespace

kernels::StepControl* step_control_of(std::string_view who, const at::Tensor& step_control,
                                      const at::Device& device) {
  check_contiguous(who, "step_control", step_control, device, at::kByte,
                   {std::int64_t{sizeof(kernels::StepControl)}});
  return reinterpret_cast<kernels::StepControl*>(step_control.mutable_data_ptr<std::uint8_t>());
}

kernels::UpdateInputs kernel_inputs(std::string_view who, const TensorBundle& bundle,
                                    const UpdateInputs& inputs) {
  const at::Device& device = bundle.device();
  const std::int64_t layers = bundle.layer_count();
  check_contiguous(who, "learning_rates", inputs.learning_rates, device, at::kFloat, {-1});
  require(inputs.learning_rates.numel() >= layers, who, "learning_rates has ",
          inputs.learning_rates.numel(), " entries for ", layers, " layers");
  kernels::UpdateInputs ours = {.learning_rates = inputs.learning_rates.const_data_ptr<float>(),
                                .control = step_control_of(who, inputs.step_control, device),
                                .scales = layer_scales_of(who, inputs.layer_scales, device, layers),
                                .moments = nullptr,
                                .gate = inputs.gate,
                                .begun_after = inputs.begun_after};
  if (inputs.gate == UpdateGate::Layer) {
    ours.moments = moments_of(who, inputs.moments, device);
    require(inputs.moments.numel() >= layers * kMomentsBytes, who, "moments has room for ",
            inputs.moments.numel() / kMomentsBytes, " layers of ", layers);
  }
  return ours;
}

at::Tensor moments_scratch(const TensorBundle& bundle) {
  const std::int64_t bytes =
      ticket_bytes(bundle) + kernels::chunk_count(bundle.all()) * kChunkBytes;
  return at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(bundle.device()));
}

void clear_moments(const at::Tensor& step_control, const at::Tensor& layer_scales,
                   const at::Tensor& moments) {
  constexpr std::string_view who = "clear_moments";
  require(step_control.defined(), who, "step_control is an undefined tensor");
  const at::Device device = step_control.device();
  kernels::LayerMoments* layers = moments_of(who, moments, device);
  const std::int64_t layer_count = moments.numel() / kMomentsBytes;
  const kernels::MomentsScales scales = {&step_control_of(who, step_control, device)->loss_scale,
                                         layer_scales_of(who, layer_scales, device, layer_count)};
  dispatch<kernels::cpu::clear_moments, kernels::cuda::clear_moments>(who, device, scales, layers,
                                                                      layer_count);
}

void add_gradient_moments(const TensorBundle& bundle, const at::Tensor& step_control,
                          const at::Tensor& layer_scales, const at::Tensor& scratch,
                          const at::Tensor& moments) {
  constexpr std::string_view who = "add_gradient_moments";
  const auto tensors = bundle.with_gradients();
  const at::Device& device = bundle.device();
  const kernels::MomentsScales scales = {
      &step_control_of(who, step_control, device)->loss_scale,
      layer_scales_of(who, layer_scales, device, bundle.layer_count())};
  kernels::LayerMoments* layers = moments_of(who, moments, device);
  require(moments.numel() >= bundle.layer_count() * kMomentsBytes, who, "moments has room for ",
          moments.numel() / kMomentsBytes, " layers of ", bundle.layer_count());
  check_contiguous(who, "scratch", scratch, device, at::kByte, {-1});
  require(scratch.numel() >= ticket_bytes(bundle) + kernels::chunk_count(tensors) * kChunkBytes,
          who, "scratch is too small; take it from moments_scratch()");
  auto* bytes = scratch.mutable_data_ptr<std::uint8_t>();
  const kernels::MomentsScratch ours = {
      .chunks = reinterpret_cast<kernels::ChunkMoments*>(bytes + ticket_bytes(bundle)),
      .tickets = reinterpret_cast<std::uint32_t*>(bytes)};
  dispatch<kernels::cpu::add_gradient_moments, kernels::cuda::add_gradient_moments>(
      who, device, tensors, scales, ours, layers);
}

void decide_step(const at::Tensor& step_control, const at::Tensor& moments,
                 const kernels::StepControlOptions& options) {
  constexpr std::string_view who = "decide_step";
  require(step_control.defined(), who, "step_control is an undefined tensor");
  kernels::StepControl* control = step_control_of(who, step_control, step_control.device());
  const kernels::LayerMoments* layers = moments_of(who, moments, step_control.device());
  const std::int64_t layer_count = moments.numel() / kMomentsBytes;
  dispatch<kernels::cpu::decide_step, kernels::cuda::decide_step>(
      who, step_control.device(), control, layers, layer_count, options);
}

void update_layer_scales(const at::Tensor& layer_scales, const at::Tensor& moments) {
  constexpr std::string_view who = "update_layer_scales";
  require(layer_scales.defined(), who, "layer_scales is an undefined tensor");
  const at::Device device = layer_scales.device();
  const kernels::LayerMoments* layers = moments_of(who, moments, device);
  const std::int64_t layer_count = moments.numel() / kMomentsBytes;
  kernels::LayerScale* scales = layer_scales_of(who, layer_scales, device, layer_count);
  dispatch<kernels::cpu::update_layer_scales, kernels::cuda::update_layer_scales>(
      who, device, scales, layers, layer_count);
}

void average_weights(const TensorBundle& bundle, const at::Tensor& step_control,
                     const kernels::WeightAverageStep& step) {
  constexpr std::string_view who = "average_weights";
  const kernels::StepControl* control = step_control_of(who, step_control, bundle.device());
  dispatch<kernels::cpu::average_weights, kernels::cuda::average_weights>(
      who, bundle.device(), bundle.all(), control, step);
}

void swap_weights(const TensorBundle& bundle) {
  dispatch<kernels::cpu::swap_weights, kernels::cuda::swap_weights>("swap_weights", bundle.device(),
                                                                    bundle.all());
}

RestorePairs::RestorePairs(std::string who, std::vector<at::Tensor> live,
                           std::vector<at::Tensor> saved)
    : who_(std::move(who)), live_(std::move(live)), saved_(std::move(saved)) {
  require(live_.size() == saved_.size(), who_, live_.size(), " tensors, but ", saved_.size(),
          " saved copies");
  entries_.reserve(live_.size());
  for (std::size_t i = 0; i < live_.size(); ++i) {
    check_pair(who_, live_[i], saved_[i], live_.front().device());
    entries_.push_back({.parameter = static_cast<float*>(live_[i].mutable_data_ptr()),
                        .state1 = static_cast<float*>(saved_[i].mutable_data_ptr()),
                        .count = static_cast<std::int64_t>(live_[i].nbytes() / sizeof(float))});
  }
}

void RestorePairs::save() const {
  if (entries_.empty()) return;
  dispatch<kernels::cpu::save_to_restore, kernels::cuda::save_to_restore>(
      who_, live_.front().device(), entries_);
}

void RestorePairs::restore() const {
  if (entries_.empty()) return;
  dispatch<kernels::cpu::restore, kernels::cuda::restore>(who_, live_.front().device(), entries_);
}

void RestorePairs::restore_if_skipped(const at::Tensor& step_control) const {
  if (entries_.empty()) return;
  const at::Device device = live_.front().device();
  const kernels::StepControl* control = step_control_of(who_, step_control, device);
  dispatch<kernels::cpu::restore_if_skipped, kernels::cuda::restore_if_skipped>(who_, device,
                                                                                entries_, control);
}

}  // namespace triaccel
