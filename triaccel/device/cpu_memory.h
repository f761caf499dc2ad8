#pragma once

#include <cstdint>
#include <memory>

#include "triaccel/core/step_report.h"

namespace triaccel {

/// Puts our allocator in front of libtorch's on the CPU, once per process. From then on every
/// tensor byte is counted, and an allocation that would pass the limit throws
/// c10::OutOfMemoryError, as the CUDA allocator does. Linux itself would grant the memory and kill
/// the process later.
void install_cpu_memory();

/// The bytes of live CPU tensors that were allocated since install_cpu_memory().
MemoryReport read_cpu_memory();

/// Forgets the peaks: they start again from what is in use now.
void reset_cpu_memory_peak();

/// The hard limit in bytes; 0 lifts it.
void limit_cpu_memory(std::int64_t bytes);

/// Number of allocations so far; tests compare two readings to show that a phase allocates nothing.
std::int64_t cpu_allocation_count();

/// Number of allocations that were refused so far, also of those somebody did without.
std::int64_t cpu_refusal_count();

/// Memory that neither the account nor the limit counts: what is kept there is kept out of the
/// device's. It fails like any other, with OutOfMemory, and is one of the allocations above.
std::shared_ptr<void> take_uncounted_memory(std::int64_t bytes);

/// Makes the allocation with this number (counted from now, 0 the next) fail, once or for good.
/// For tests of what an out-of-memory leaves behind; a negative number switches it off.
void fail_cpu_allocation(std::int64_t allocations_from_now, bool persistently = false);

/// What this thread's allocations are for until the scope ends. Costs two stores.
class [[nodiscard]] MemoryPurposeScope {
 public:
  explicit MemoryPurposeScope(MemoryPurpose purpose);
  ~MemoryPurposeScope();
  MemoryPurposeScope(const MemoryPurposeScope&) = delete;
  MemoryPurposeScope& operator=(const MemoryPurposeScope&) = delete;

 private:
  MemoryPurpose previous_;
};

}  // namespace triaccel
