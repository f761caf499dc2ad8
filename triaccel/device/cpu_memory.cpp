#include "triaccel/device/cpu_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line; what libtorch's own allocator gives

/// Stands in front of every block, so that the deleter knows what it gives back.
struct alignas(kAlignment) BlockHeader {
  std::int64_t bytes;
  MemoryPurpose purpose;
};

thread_local MemoryPurpose current_purpose = MemoryPurpose::Workspace;

/// A count of live bytes and the most it has ever been.
struct Level {
  std::atomic<std::int64_t> now = 0;
  std::atomic<std::int64_t> peak = 0;

  void add(std::int64_t bytes) { add_below(bytes, 0); }
  /// False: they would pass the limit, and are not added. 0: there is none.
  bool add_below(std::int64_t bytes, std::int64_t limit) {
    const std::int64_t after = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (limit > 0 && after > limit) {
      remove(bytes);
      return false;
    }
    std::int64_t seen = peak.load(std::memory_order_relaxed);
    while (after > seen && !peak.compare_exchange_weak(seen, after, std::memory_order_relaxed)) {
    }
    return true;
  }
  void remove(std::int64_t bytes) { now.fetch_sub(bytes, std::memory_order_relaxed); }
  void reset_peak() { peak = now.load(); }
};

/// Plain counters that live as long as the process: tensors may be freed after main() has returned.
struct Account {
  Level total;
  std::array<Level, kMemoryPurposes> by_purpose;
  std::atomic<std::int64_t> limit = 0;
  std::atomic<std::int64_t> allocations = 0, refusals = 0;
  std::atomic<std::int64_t> failing_allocation = -1;
  std::atomic<bool> fails_persistently = false;
};

Account& account() {
  static Account* const instance = new Account;
  return *instance;
}

bool must_fail(std::int64_t number) {
  const std::int64_t failing = account().failing_allocation.load(std::memory_order_relaxed);
  if (failing < 0) return false;
  return account().fails_persistently ? number >= failing : number == failing;
}

[[noreturn]] void throw_out_of_memory(std::int64_t wanted) {
  account().refusals.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t limit = account().limit;
  throw c10::OutOfMemoryError(
      {__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
      text("CPU memory: ", byte_text(wanted), " more ",
           limit > 0 ? text("would pass the budget of ", byte_text(limit)) : "cannot be allocated",
           " (", byte_text(account().total.now), " in use)"));
}

void release(void* data) {
  if (data == nullptr) return;
  auto* const header = static_cast<BlockHeader*>(data) - 1;
  account().total.remove(header->bytes);
  account().by_purpose[static_cast<std::size_t>(header->purpose)].remove(header->bytes);
  std::free(header);
}

class AccountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* const data = size == 0 ? nullptr : take(static_cast<std::int64_t>(size));
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }

 private:
  static void* take(std::int64_t bytes) {
    Account& book = account();
    const std::int64_t number = book.allocations.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t limit = book.limit.load(std::memory_order_relaxed);
    if (must_fail(number) || !book.total.add_below(bytes, limit)) throw_out_of_memory(bytes);
    void* block = nullptr;
    if (posix_memalign(&block, kAlignment, sizeof(BlockHeader) + static_cast<std::size_t>(bytes))) {
      book.total.remove(bytes);
      throw_out_of_memory(bytes);
    }
    auto* const header = new (block) BlockHeader{bytes, current_purpose};
    book.by_purpose[static_cast<std::size_t>(current_purpose)].add(bytes);
    return header + 1;
  }
};

}  // namespace

void install_cpu_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Activations come and go every step. By default glibc maps and unmaps each large block, and
    // the page faults cost more than many layers; 32 MiB is the highest threshold it accepts.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
    static auto* const allocator = new AccountingAllocator;  // outlives every tensor
    c10::SetCPUAllocator(allocator, /*priority=*/1);
  });
}

MemoryReport read_cpu_memory() {
  const Account& book = account();
  MemoryReport report{.used = book.total.now,
                      .peak = book.total.peak,
                      .reserved = book.total.peak,
                      .limit = book.limit};
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    report.peak_by_purpose[i] = book.by_purpose[i].peak;
  return report;
}

std::shared_ptr<void> take_uncounted_memory(std::int64_t bytes) {
  const std::int64_t number = account().allocations.fetch_add(1, std::memory_order_relaxed);
  void* block = nullptr;
  if (must_fail(number) ||
      posix_memalign(&block, kAlignment, static_cast<std::size_t>(bytes)) != 0) {
    account().refusals.fetch_add(1, std::memory_order_relaxed);
    throw OutOfMemory(text(byte_text(bytes), " of host memory cannot be allocated"));
  }
  return {block, &std::free};
}

void reset_cpu_memory_peak() {
  account().total.reset_peak();
  for (Level& level : account().by_purpose) level.reset_peak();
}

void limit_cpu_memory(std::int64_t bytes) { account().limit = bytes; }

std::int64_t cpu_allocation_count() { return account().allocations; }

std::int64_t cpu_refusal_count() { return account().refusals; }

void fail_cpu_allocation(std::int64_t allocations_from_now, bool persistently) {
  account().fails_persistently = persistently;
  account().failing_allocation =
      allocations_from_now < 0 ? -1 : account().allocations + allocations_from_now;
}

MemoryPurposeScope::MemoryPurposeScope(MemoryPurpose purpose)
    : previous_(std::exchange(current_purpose, purpose)) {}

MemoryPurposeScope::~MemoryPurposeScope() { current_purpose = previous_; }

}  // namespace triaccel
