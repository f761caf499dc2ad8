#include "triaccel/ops/update/layer_scales.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/precision/scaled_cast.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

at::Tensor make_layer_scales(at::Device device, std::int64_t layer_count) {
  at::Tensor scales = at::zeros({layer_count, 4}, at::TensorOptions(at::kFloat).device(device));
  scales.select(1, 0).fill_(1);
  return scales;
}

kernels::LayerScale* layer_scales_of(std::string_view who, const at::Tensor& layer_scales,
                                     const at::Device& device, std::int64_t layer_count) {
  if (!layer_scales.defined()) return nullptr;
  check_contiguous(who, "layer_scales", layer_scales, device, at::kFloat, {-1, 4});
  require(layer_scales.size(0) >= layer_count, who, "layer_scales has ", layer_scales.size(0),
          " rows for ", layer_count, " layers");
  return reinterpret_cast<kernels::LayerScale*>(layer_scales.mutable_data_ptr<float>());
}

at::Tensor scaled_cast(const at::Tensor& from, at::ScalarType to, const at::Tensor& layer_scales,
                       std::int64_t layer, bool divide, bool record_maximum) {
  constexpr std::string_view who = "scaled_cast";
  require(from.defined(), who, "from is an undefined tensor");
  check_tensor(who, "from", from, from.device(), from.scalar_type());
  require(layer >= 0, who, "layer must not be negative, got ", layer);
  const at::NoGradGuard no_gradient;
  const at::Tensor dense = from.is_non_overlapping_and_dense() ? from : from.contiguous();
  at::Tensor result = at::empty_like(dense, dense.options().dtype(to), at::MemoryFormat::Preserve);
  const kernels::CastArrays arrays = {.from = dense.const_data_ptr(),
                                      .from_type = float_type_of(who, "from", from.scalar_type()),
                                      .to = result.mutable_data_ptr(),
                                      .to_type = float_type_of(who, "the result", to),
                                      .count = dense.numel()};
  kernels::CastScale scale = {.scale = nullptr, .divide = divide, .absolute_maximum = nullptr};
  if (auto* scales = layer_scales_of(who, layer_scales, from.device(), layer + 1)) {
    scale.scale = &scales[layer].scale;
    if (record_maximum) scale.absolute_maximum = &scales[layer].output_maximum;
  }
  dispatch<kernels::cpu::scaled_cast, kernels::cuda::scaled_cast>(who, from.device(), arrays,
                                                                  scale);
  return result;
}

}  // namespace triaccel
