#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triaccel {

/// A saved tensor by reference, apart from its place in the graph. Notices, as autograd does
/// without hooks, when it was changed in place before backward read it.
class RawTensor {
 public:
  explicit RawTensor(const at::Tensor& tensor)
      : data_(tensor.tensor_data()), version_(tensor._version()) {}

  /// Throws UsageError when the tensor was changed since.
  at::Tensor value() const;

 private:
  at::Tensor data_;  // shares the version of the original
  std::int64_t version_;
};

}  // namespace triaccel
