#include "triaccel/ops/compression/encoded_tensor.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

void check_dense(std::string_view who, const at::Tensor& values) {
  require(values.defined(), who, "values is an undefined tensor");
  require(values.layout() == at::kStrided && values.is_non_overlapping_and_dense(), who,
          "values must fill their memory without gaps, got sizes ", values.sizes(),
          "; call contiguous() on them");
}

at::Tensor allocate_encoded(const at::Tensor& values, std::int64_t count, at::ScalarType type,
                            const EncodeBuffer& buffer) {
  return buffer ? buffer(count, type) : at::empty({count}, values.options().dtype(type));
}

at::Tensor allocate_decoded(std::string_view who, const at::Tensor& encoded, std::int64_t bytes,
                            at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  require(encoded.defined(), who, "encoded is an undefined tensor");
  check_contiguous(who, "encoded", encoded, encoded.device(), at::kByte, {bytes});
  at::Tensor values = at::empty_strided(sizes, strides, encoded.options().dtype(type));
  check_dense(who, values);
  return values;
}

std::int32_t* counter_of(std::string_view who, const at::Tensor& not_finite,
                         const at::Device& device) {
  if (!not_finite.defined()) return nullptr;
  check_contiguous(who, "not_finite", not_finite, device, at::kInt, {1});
  return not_finite.mutable_data_ptr<std::int32_t>();
}

}  // namespace triaccel
