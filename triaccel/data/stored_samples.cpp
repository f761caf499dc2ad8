#include "triaccel/data/stored_samples.h"

#include <ATen/ATen.h>

#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/host_memory.h"

namespace triaccel {
namespace {

at::Tensor copy_in_host_memory(const at::Tensor& values, c10::Device reader) {
  const HostTensor copy = make_host_tensor(values.sizes(), values.scalar_type(), reader);
  copy.on_host.copy_(values);
  return copy.for_device;
}

}  // namespace

StoredSamples::StoredSamples(const at::Tensor& values, const DataPlace& place)
    : in_host_memory_(place.in_host_memory) {
  const MemoryPurposeScope purpose(MemoryPurpose::Data);
  tensor_ = in_host_memory_ ? copy_in_host_memory(values, place.device) : values.to(place.device);
}

StoredSamples StoredSamples::copy(const void* values, at::IntArrayRef shape, at::ScalarType type,
                                  const DataPlace& place) {
  const MemoryPurposeScope purpose(MemoryPurpose::Data);
  // from_blob requires a mutable pointer, but the view is only read.
  const at::Tensor view = at::from_blob(const_cast<void*>(values), shape, type);
  const bool copied_anyway = place.in_host_memory || !place.device.is_cpu();
  return {copied_anyway ? view : view.clone(), place};
}

StoredSamples StoredSamples::moved_to(const DataPlace& place) const {
  if (!in_host_memory_) return {tensor_, place};
  if (place.in_host_memory && tensor_.device().type() == place.device.type()) return *this;
  const MemoryPurposeScope purpose(MemoryPurpose::Data);
  return {tensor_.clone(), place};  // the tensor only looks as if it lay on the device
}

}  // namespace triaccel
