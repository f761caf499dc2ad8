#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "triaccel/device/cuda_memory.h"

namespace triaccel {

/// Host memory for work on `reader`, which no budget counts: pinned for a GPU. Throws OutOfMemory.
MappedMemory host_memory_for(const c10::Device& reader, std::int64_t bytes);

/// Such memory as two tensors. A GPU reads and writes it in place, over the bus: captured work
/// finds it at its address. Work that is enqueued later sees what the host has written; the host
/// sees what work has written once it has waited for it (synchronize()).
struct HostTensor {
  at::Tensor on_host;
  at::Tensor for_device;  // as if it lay there
};

/// Contiguous, uninitialised. Throws OutOfMemory.
HostTensor make_host_tensor(at::IntArrayRef sizes, at::ScalarType type, c10::Device reader);

}  // namespace triaccel
