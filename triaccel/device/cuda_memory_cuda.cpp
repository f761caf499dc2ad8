// Uses libtorch internals: the size of the pages that its allocator takes.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

using Settings = c10::CachingAllocator::AcceleratorAllocatorConfig;

// Memory grows by pages of the device's own size. libtorch takes no less than 12 MiB from its
// settings, because segments that cannot grow need more.
constexpr std::size_t kPageBytes = 2 << 20;

std::atomic<std::size_t>& page_size(Settings& settings);
template <auto Member>
struct PageSize {
  friend std::atomic<std::size_t>& page_size(Settings& settings) { return settings.*Member; }
};
template struct PageSize<&Settings::large_segment_size_>;  // private; an instantiation may name it

std::int64_t cuda_limit = 0;

/// The allocator knows no device before CUDA was used.
c10::DeviceIndex current() {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return c10::cuda::current_device();
}

/// What may be taken past the limit: requests below 10 MiB are checked as if they took one page.
std::int64_t unchecked_bytes() {
  if (!Settings::use_expandable_segments()) return 0;
  const std::size_t page = Settings::large_segment_size();
  const std::size_t most = std::max(page, c10::CachingAllocator::kMinLargeAlloc - kPageBytes);
  return static_cast<std::int64_t>(most);
}

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
  const double share = static_cast<double>(std::max<std::int64_t>(0, bytes - unchecked_bytes())) /
                       static_cast<double>(cuda_total_bytes());
  allocator::setMemoryFraction(bytes == 0 ? 1.0 : std::min(share, 1.0), current());
}

void release_cuda_cache() {
  // The allocator takes pages away as soon as the stream that asked for them is done; a replay uses
  // pages of all captured streams and runs on one.
  c10::cuda::device_synchronize();
  allocator::emptyCache();
}

MappedMemory map_host_memory(std::int64_t bytes) {
  void* host = nullptr;
  // A capture on this thread would forbid it, though nothing of it is captured.
  const c10::cuda::CUDAStreamCaptureModeGuard allowed(cudaStreamCaptureModeRelaxed);
  if (cudaHostAlloc(&host, static_cast<std::size_t>(bytes), cudaHostAllocMapped) != cudaSuccess) {
    (void)cudaGetLastError();  // or the next call would report it
    throw OutOfMemory(text(byte_text(bytes), " of pinned host memory cannot be allocated"));
  }
  MappedMemory memory{.host = {host, [](void* pinned) {
                                 (void)cudaDeviceSynchronize();  // work may still read it
                                 (void)cudaFreeHost(pinned);
                               }}};
  C10_CUDA_CHECK(cudaHostGetDevicePointer(&memory.on_device, host, 0));
  return memory;
}

void copy_cuda_bytes(void* to, const void* from, std::int64_t bytes) {
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                                 c10::cuda::getCurrentCUDAStream()));
}

void allow_expandable_segments() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    if (std::getenv(name) != nullptr) return;
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  if (Settings::use_expandable_segments())  // what cannot grow needs larger ones
    page_size(Settings::instance()) = kPageBytes;
}

void synchronize_cuda() { c10::cuda::device_synchronize(); }

}  // namespace triaccel
