#include "triaccel/ops/update/layer_scales.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
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

}  // namespace triaccel
