#include "triaccel/base/error.h"
#include "triaccel/device/captured_work.h"

namespace triaccel {

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
