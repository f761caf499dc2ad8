#include "triaccel/saved/saved_record.h"

#include <ATen/ATen.h>

#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

void SavedVersion::require_unchanged(at::IntArrayRef sizes) const {
  require(version_.current_version() == saved_, "backward", "a tensor of sizes ", sizes,
          " that backward needs was changed in place after forward saved it (version ",
          version_.current_version(), ", saved at ", saved_,
          "); use the operator that makes a new tensor");
}

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

at::Tensor DecodedTensor::of(const SharedRecord& record) {
  const std::scoped_lock lock(mutex_);
  const bool last_reader = record.use_count() == 1;
  if (values_.defined() && record_.lock() == record) {
    ++counts_.shared;
    return last_reader ? std::exchange(values_, {}) : values_;
  }
  values_.reset();  // its memory may serve the next one
  at::Tensor values = record->decode();
  ++counts_.decodes;
  if (!last_reader) {
    values_ = values;
    record_ = record;
  }
  return values;
}

void DecodedTensor::forget() {
  const std::scoped_lock lock(mutex_);
  values_.reset();
  record_.reset();
}

DecodedTensor::Counts DecodedTensor::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

void DecodedTensor::reset_counts() {
  const std::scoped_lock lock(mutex_);
  counts_ = {};
}

}  // namespace triaccel
