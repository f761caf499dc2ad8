#include "triaccel/saved/tensor_layout.h"

#include <ATen/ATen.h>

namespace triaccel {

TensorLayout::TensorLayout(const at::Tensor& tensor)
    : sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()),
      options(tensor.options().requires_grad(false)) {}

at::Tensor TensorLayout::empty() const { return at::empty_strided(sizes, strides, options); }

at::Tensor TensorLayout::stand_in() const {
  const at::Tensor one = at::empty({1}, options);
  one.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return one;
}

at::Tensor TensorLayout::of(const at::Tensor& dense) const {
  if (dense.sizes() == at::IntArrayRef(sizes) && dense.strides() == at::IntArrayRef(strides))
    return dense;
  return dense.as_strided(sizes, strides, dense.storage_offset());
}

}  // namespace triaccel
