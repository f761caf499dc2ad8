#include "triaccel/device/host_memory.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "triaccel/device/cpu_memory.h"

namespace triaccel {

MappedMemory host_memory_for(const c10::Device& reader, std::int64_t bytes) {
  if (reader.is_cuda()) return map_host_memory(bytes);
  const std::shared_ptr<void> plain = take_uncounted_memory(bytes);
  return {.host = plain, .on_device = plain.get()};
}

HostTensor make_host_tensor(at::IntArrayRef sizes, at::ScalarType type, c10::Device reader) {
  const c10::Device device = at::empty({0}, at::TensorOptions(reader)).device();  // with its index
  const std::int64_t bytes = c10::multiply_integers(sizes) * c10::elementSize(type);
  const MappedMemory memory = host_memory_for(device, std::max<std::int64_t>(1, bytes));
  const auto keep = [kept = memory.host](void*) {};
  return {.on_host = at::from_blob(memory.host.get(), sizes, keep, at::TensorOptions(type)),
          .for_device = at::from_blob(memory.on_device, sizes, keep,
                                      at::TensorOptions(type).device(device), device)};
}

}  // namespace triaccel
