// What every kernel of a replayed CUDA graph did when, which ncu cannot see: it runs kernels one by
// one. Loaded by the driver into any program: CUDA_INJECTION64_PATH=libreplay_trace.so
// REPLAY_TRACE=trace.csv PROGRAM, then tools/timeline trace.csv. Tracing itself adds about a tenth
// to a step of half a millisecond.

#include <cupti.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBufferBytes = 8 << 20;

struct Piece {
  std::uint64_t start, end;  // ns
  std::uint32_t stream, launch;
  std::string grid, name;
};

std::mutex lock;
std::vector<Piece> pieces;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *bytes = kBufferBytes;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *most_records = 0;  // as many as fit
}

/// Kernels and memsets of graphs; what is launched on its own is skipped.
void note(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    if (kernel->graphId == 0) return;
    const auto by = [](auto one, auto other) {
      return std::to_string(one) + "x" + std::to_string(other);
    };
    pieces.push_back({kernel->start, kernel->end, kernel->streamId, kernel->correlationId,
                      by(kernel->gridX, kernel->gridY) + "x" + by(kernel->gridZ, kernel->blockX),
                      kernel->name != nullptr ? kernel->name : "?"});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* memset = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    if (memset->graphId == 0) return;
    pieces.push_back(
        {memset->start, memset->end, memset->streamId, memset->correlationId, "-", "memset"});
  }
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t used) {
  const std::lock_guard hold(lock);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) note(record);
  std::free(buffer);
}

void write_trace() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* path = std::getenv("REPLAY_TRACE");
  std::ofstream file(path != nullptr ? path : "replay_trace.csv");
  if (!file)
    std::cerr << "replay_trace: cannot write " << (path != nullptr ? path : "replay_trace.csv")
              << "; set REPLAY_TRACE to another place\n";
  file << "start_ns,end_ns,stream,launch,grid,name\n";
  for (const Piece& piece : pieces)
    file << piece.start << ',' << piece.end << ',' << piece.stream << ',' << piece.launch << ','
         << piece.grid << ',' << piece.name << '\n';
}

}  // namespace

/// Called by the driver when it starts.
extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) != CUPTI_SUCCESS) {
    std::cerr << "replay_trace: CUPTI does not trace here; is another profiler attached, or "
                 "profiling kept for the administrator?\n";
    return 0;
  }
  std::atexit(write_trace);
  return 1;
}
