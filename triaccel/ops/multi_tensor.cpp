#include "triaccel/ops/multi_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/ops/dispatch.h"
#include "triaccel/ops/layer_scales.h"
#include "triaccel/ops/step_control.h"
#include "triaccel/ops/tensor_check.h"

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

const float* rates_of(std::string_view who, const TensorBundle& bundle,
                      const at::Tensor& learning_rates) {
  check_contiguous(who, "learning_rates", learning_rates, bundle.device(), at::kFloat, {-1});
  require(learning_rates.numel() >= bundle.layer_count(), who, "learning_rates has ",
          learning_rates.numel(), " entries for ", bundle.layer_count(), " layers");
  return learning_rates.const_data_ptr<float>();
}

}  // namespace

at::Tensor moments_scratch(const TensorBundle& bundle) {
  const std::int64_t bytes =
      kernels::chunk_count(bundle.all()) * std::int64_t{sizeof(kernels::ChunkMoments)};
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(bundle.device()));
}

void gradient_moments(const TensorBundle& bundle, const at::Tensor& step_control,
                      const at::Tensor& layer_scales, const at::Tensor& scratch,
                      const at::Tensor& moments) {
  constexpr std::string_view who = "gradient_moments";
  const auto tensors = bundle.with_gradients();
  const float* loss_scale = &step_control_of(who, step_control, bundle.device())->loss_scale;
  kernels::LayerMoments* layers = moments_of(who, moments, bundle.device());
  const std::int64_t layer_count = moments.numel() / kMomentsBytes;
  require(layer_count >= bundle.layer_count(), who, "moments has room for ", layer_count,
          " layers of ", bundle.layer_count());
  const kernels::LayerScale* scales =
      layer_scales_of(who, layer_scales, bundle.device(), layer_count);
  check_contiguous(who, "scratch", scratch, bundle.device(), at::kByte, {-1});
  require(scratch.numel() >=
              kernels::chunk_count(tensors) * std::int64_t{sizeof(kernels::ChunkMoments)},
          who, "scratch is too small; take it from moments_scratch()");
  auto* chunks = reinterpret_cast<kernels::ChunkMoments*>(scratch.mutable_data_ptr<std::uint8_t>());
  dispatch(
      who, bundle.device(),
      [&] {
        kernels::cpu::gradient_moments(tensors, loss_scale, scales, chunks, layers, layer_count);
      },
      [&](cudaStream_t stream) {
        kernels::cuda::gradient_moments(tensors, loss_scale, scales, chunks, layers, layer_count,
                                        stream);
      });
}

void decide_step(const at::Tensor& step_control, const at::Tensor& moments,
                 const kernels::StepControlOptions& options) {
  constexpr std::string_view who = "decide_step";
  require(step_control.defined(), who, "step_control is an undefined tensor");
  kernels::StepControl* control = step_control_of(who, step_control, step_control.device());
  const kernels::LayerMoments* layers = moments_of(who, moments, step_control.device());
  const std::int64_t layer_count = moments.numel() / kMomentsBytes;
  dispatch(
      who, step_control.device(),
      [&] { kernels::cpu::decide_step(control, layers, layer_count, options); },
      [&](cudaStream_t stream) {
        kernels::cuda::decide_step(control, layers, layer_count, options, stream);
      });
}

void update_layer_scales(const at::Tensor& layer_scales, const at::Tensor& moments) {
  constexpr std::string_view who = "update_layer_scales";
  require(layer_scales.defined(), who, "layer_scales is an undefined tensor");
  const at::Device device = layer_scales.device();
  const kernels::LayerMoments* layers = moments_of(who, moments, device);
  const std::int64_t layer_count = moments.numel() / kMomentsBytes;
  kernels::LayerScale* scales = layer_scales_of(who, layer_scales, device, layer_count);
  dispatch(
      who, device, [&] { kernels::cpu::update_layer_scales(scales, layers, layer_count); },
      [&](cudaStream_t stream) {
        kernels::cuda::update_layer_scales(scales, layers, layer_count, stream);
      });
}

void sgd_update(const TensorBundle& bundle, const at::Tensor& learning_rates,
                const at::Tensor& step_control, const at::Tensor& layer_scales,
                const kernels::SgdStep& step) {
  constexpr std::string_view who = "sgd_update";
  const auto tensors = bundle.with_gradients();
  const float* rates = rates_of(who, bundle, learning_rates);
  const kernels::StepControl* control = step_control_of(who, step_control, bundle.device());
  const kernels::LayerScale* scales =
      layer_scales_of(who, layer_scales, bundle.device(), bundle.layer_count());
  dispatch(
      who, bundle.device(),
      [&] { kernels::cpu::sgd_update(tensors, rates, control, scales, step); },
      [&](cudaStream_t stream) {
        kernels::cuda::sgd_update(tensors, rates, control, scales, step, stream);
      });
}

void adamw_update(const TensorBundle& bundle, const at::Tensor& learning_rates,
                  const at::Tensor& step_control, const at::Tensor& layer_scales,
                  const kernels::AdamWStep& step) {
  constexpr std::string_view who = "adamw_update";
  const auto tensors = bundle.with_gradients();
  const float* rates = rates_of(who, bundle, learning_rates);
  const kernels::StepControl* control = step_control_of(who, step_control, bundle.device());
  const kernels::LayerScale* scales =
      layer_scales_of(who, layer_scales, bundle.device(), bundle.layer_count());
  dispatch(
      who, bundle.device(),
      [&] { kernels::cpu::adamw_update(tensors, rates, control, scales, step); },
      [&](cudaStream_t stream) {
        kernels::cuda::adamw_update(tensors, rates, control, scales, step, stream);
      });
}

void average_weights(const TensorBundle& bundle, const at::Tensor& step_control,
                     const kernels::WeightAverageStep& step) {
  constexpr std::string_view who = "average_weights";
  const kernels::StepControl* control = step_control_of(who, step_control, bundle.device());
  dispatch(
      who, bundle.device(), [&] { kernels::cpu::average_weights(bundle.all(), control, step); },
      [&](cudaStream_t stream) {
        kernels::cuda::average_weights(bundle.all(), control, step, stream);
      });
}

void swap_weights(const TensorBundle& bundle) {
  dispatch(
      "swap_weights", bundle.device(), [&] { kernels::cpu::swap_weights(bundle.all()); },
      [&](cudaStream_t stream) { kernels::cuda::swap_weights(bundle.all(), stream); });
}

}  // namespace triaccel
