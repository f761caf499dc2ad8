#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/side_stream.h"

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
MappedMemory map_host_memory(std::int64_t) { no_cuda("map_host_memory"); }
void copy_cuda_bytes(void*, const void*, std::int64_t) { no_cuda("copy_cuda_bytes"); }
void allow_expandable_segments() {}

void synchronize_cuda() { no_cuda("synchronize_cuda"); }

cudaStream_t current_cuda_stream(const c10::Device&) { return nullptr; }

struct WorkStream::Guard {};

WorkStream::WorkStream(c10::Device) {}
WorkStream::~WorkStream() = default;

struct SideStream::Place {};
struct SideStream::Streams {};

SideStream::SideStream() = default;
SideStream::~SideStream() = default;

SideStream::Mark SideStream::mark() const { return nullptr; }
SideStream::Work SideStream::run(const std::function<void()>& work, std::vector<at::Tensor>) {
  work();
  return {};
}
SideStream::Work SideStream::run_after(const Mark&, const std::function<void()>& work,
                                       std::vector<at::Tensor> held) {
  return run(work, std::move(held));
}
cudaStream_t SideStream::handle() const { return nullptr; }
void SideStream::wait_down_to(std::int64_t) {}
void SideStream::come_after(const Work&) {}
void SideStream::wait_for(std::int64_t) {}
void SideStream::join() {}
void SideStream::abandon() {}

struct WorkPool::Id {};
struct CapturedWork::Graph {};

WorkPool::WorkPool() { ensure(false, "work is captured on a GPU only"); }
WorkPool::~WorkPool() = default;
void WorkPool::renew() {}
void WorkPool::share_with(const SideStream&) {}
WorkPool::Scope::Scope(WorkPool& pool) : pool_(pool) {}
WorkPool::Scope::~Scope() = default;

CapturedWork::CapturedWork(WorkPool&, const std::function<void()>&) {}
CapturedWork::~CapturedWork() = default;
CapturedWork::CapturedWork(CapturedWork&&) noexcept = default;
CapturedWork& CapturedWork::operator=(CapturedWork&&) noexcept = default;
void CapturedWork::replay(const KernelArguments&) {}

bool can_capture() { return false; }

}  // namespace triaccel
