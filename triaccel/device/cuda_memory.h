#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "triaccel/core/step_report.h"

namespace triaccel {

/// Whether this build has the CUDA back end and the machine a device it can use.
bool cuda_available();

/// Name, compute capability and memory of the current CUDA device, in words.
std::string cuda_device_text();

/// 90 for compute capability 9.0.
int cuda_capability();

std::int64_t cuda_total_bytes();

/// What neither this process nor another has taken from the device.
std::int64_t cuda_free_bytes();

/// The caching allocator's figures for the current device; no figures by purpose.
MemoryReport read_cuda_memory();
void reset_cuda_memory_peak();

/// The hard limit of what the caching allocator may take from the device; 0 lifts it. Memory that
/// grows keeps a page below it: the allocator checks what is asked for, and takes whole pages.
void limit_cuda_memory(std::int64_t bytes);

/// Gives cached blocks back to the device.
void release_cuda_cache();

/// Host memory that work on a device reads in place, over the bus.
struct MappedMemory {
  std::shared_ptr<void> host = {};  // freed with the last copy of it, once the device is idle
  void* on_device = nullptr;        // its address there
};

/// Takes pinned host memory, which counts against no limit of the device. Throws OutOfMemory.
MappedMemory map_host_memory(std::int64_t bytes);

/// Enqueues a copy between memory of the current device and pinned host memory on the current
/// stream.
void copy_cuda_bytes(void* to, const void* from, std::int64_t bytes);

/// Makes the caching allocator extend the memory of each stream and pool page by page, instead of
/// taking a segment for every size that finds no gap: a plan of other sizes then uses the bytes of
/// the one before. Pages are of 2 MiB, as the device's own. Settings in PYTORCH_ALLOC_CONF are
/// respected.
void allow_expandable_segments();

/// Waits for everything enqueued on the current device.
void synchronize_cuda();

}  // namespace triaccel
