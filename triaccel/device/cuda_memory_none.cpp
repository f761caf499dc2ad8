#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"

namespace triaccel {
namespace {

[[noreturn]] void no_cuda(const char* who) {
  throw UsageError(
      text("[", who, "] this build has no CUDA back end; configure with -DTRIACCEL_CUDA=ON"));
}

}  // namespace

bool cuda_available() { return false; }
std::string cuda_device_text() { no_cuda("cuda_device_text"); }
int cuda_capability() { no_cuda("cuda_capability"); }
std::int64_t cuda_total_bytes() { no_cuda("cuda_total_bytes"); }
std::int64_t cuda_free_bytes() { no_cuda("cuda_free_bytes"); }
MemoryReport read_cuda_memory() { no_cuda("read_cuda_memory"); }
void reset_cuda_memory_peak() { no_cuda("reset_cuda_memory_peak"); }
void limit_cuda_memory(std::int64_t) { no_cuda("limit_cuda_memory"); }
void release_cuda_cache() { no_cuda("release_cuda_cache"); }
void let_cuda_memory_grow() {}

void synchronize_cuda() { no_cuda("synchronize_cuda"); }

}  // namespace triaccel
