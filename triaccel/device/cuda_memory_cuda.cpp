#include <ATen/cuda/CUDAContext.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdlib>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::int64_t cuda_limit = 0;

c10::DeviceIndex current() { return c10::cuda::current_device(); }

}  // namespace

bool cuda_available() { return c10::cuda::device_count() > 0; }

std::string cuda_device_text() {
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  return text(device.name, ", sm_", device.major, device.minor, ", ",
              byte_text(static_cast<std::int64_t>(device.totalGlobalMem)));
}

int cuda_capability() {
  const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
  return 10 * device.major + device.minor;
}

std::int64_t cuda_total_bytes() {
  return static_cast<std::int64_t>(at::cuda::getCurrentDeviceProperties()->totalGlobalMem);
}

std::int64_t cuda_free_bytes() {
  return static_cast<std::int64_t>(allocator::get()->getMemoryInfo(current()).first);
}

MemoryReport read_cuda_memory() {
  const auto stats = allocator::getDeviceStats(current());
  return {.used = stats.allocated_bytes[kAll].current,
          .peak = stats.allocated_bytes[kAll].peak,
          .reserved = stats.reserved_bytes[kAll].peak,
          .limit = cuda_limit};
}

void reset_cuda_memory_peak() { allocator::resetPeakStats(current()); }

void limit_cuda_memory(std::int64_t bytes) {
  cuda_limit = bytes;
  const double share =
      bytes == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(cuda_total_bytes());
  allocator::setMemoryFraction(std::min(share, 1.0), current());
}

void release_cuda_cache() { allocator::emptyCache(); }

void take_cuda_memory_in_small_parts() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    if (std::getenv(name) != nullptr) return;
  c10::CachingAllocator::setAllocatorSettings("large_segment_size_mb:11");
}

void synchronize_cuda() { c10::cuda::device_synchronize(); }

}  // namespace triaccel
