#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triaccel {

/// Which device reads samples, and whether they lie in its memory.
struct DataPlace {
  DataPlace(c10::Device reader, bool host = false) : device(reader), in_host_memory(host) {}

  c10::Device device;
  bool in_host_memory;
};

/// Values of all samples of a data set, as one tensor for work on the device wherever they lie. A
/// GPU reads host memory in place, over the bus: nothing is copied ahead, and captured work finds
/// every sample at its address. Host memory is pinned for a GPU, and counts against no budget.
class StoredSamples {
 public:
  StoredSamples() = default;

  /// Takes `values` as they are where they lie on the device already. Host memory always gets a
  /// copy.
  StoredSamples(const at::Tensor& values, const DataPlace& place);

  /// A copy of `values`, contiguous numbers of the caller's.
  static StoredSamples copy(const void* values, at::IntArrayRef shape, at::ScalarType type,
                            const DataPlace& place);

  /// The same samples elsewhere, or these where they lie there already.
  StoredSamples moved_to(const DataPlace& place) const;

  const at::Tensor& tensor() const { return tensor_; }
  std::int64_t device_bytes() const { return in_host_memory_ ? 0 : bytes(); }
  std::int64_t host_bytes() const { return in_host_memory_ ? bytes() : 0; }

 private:
  std::int64_t bytes() const {
    return tensor_.defined() ? static_cast<std::int64_t>(tensor_.nbytes()) : 0;
  }

  at::Tensor tensor_;
  bool in_host_memory_ = false;
};

}  // namespace triaccel
