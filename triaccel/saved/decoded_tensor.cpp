#include "triaccel/saved/decoded_tensor.h"

#include <ATen/ATen.h>

#include <utility>

namespace triaccel {

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
