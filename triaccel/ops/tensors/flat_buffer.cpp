#include "triaccel/ops/tensors/flat_buffer.h"

#include <ATen/ATen.h>

#include "triaccel/base/divide_up.h"

namespace triaccel {

std::vector<at::Tensor> in_flat_buffer(const std::vector<at::Tensor>& like,
                                       std::optional<c10::Device> device) {
  constexpr std::int64_t unit = 32;  // elements; 128 bytes of FP32
  if (like.empty()) return {};
  std::int64_t total = 0;
  std::vector<std::int64_t> offsets;
  for (const at::Tensor& tensor : like) {
    offsets.push_back(total);
    total += round_up(tensor.numel(), unit);
  }
  const at::Tensor piece =
      at::empty({total}, like.front().options().device(device.value_or(like.front().device())));
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < like.size(); ++i)
    tensors.push_back(piece.as_strided(like[i].sizes(), like[i].strides(), offsets[i]));
  return tensors;
}

}  // namespace triaccel
