#include "triaccel/saved/tensor_identity.h"

#include <ATen/ATen.h>

namespace triaccel {
namespace {

const void* storage_address(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

}  // namespace

bool has_identity(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() && tensor.numel() > 0;
}

TensorIdentity::TensorIdentity(const at::Tensor& tensor)
    : storage_(tensor.storage().getWeakStorageImpl()),
      data_(tensor.const_data_ptr()),
      count_(tensor.numel()),
      type_(tensor.scalar_type()),
      version_(tensor._version()) {
  if (tensor.is_non_overlapping_and_dense()) return;
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
}

bool TensorIdentity::is(const at::Tensor& tensor) const {
  if (storage_._unsafe_get_target() != storage_address(tensor) ||
      data_ != tensor.const_data_ptr() || count_ != tensor.numel() ||
      type_ != tensor.scalar_type() || version_ != tensor._version())
    return false;
  if (tensor.is_non_overlapping_and_dense()) return strides_.empty();
  return at::IntArrayRef(sizes_) == tensor.sizes() && at::IntArrayRef(strides_) == tensor.strides();
}

}  // namespace triaccel
