#pragma once

#include <cstdint>
#include <memory>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"

namespace triaccel::int8 {

/// Alignment of buffers in bytes.
inline constexpr std::int64_t kArenaStep = 64;

constexpr std::int64_t arena_bytes(std::int64_t bytes) { return round_up(bytes, kArenaStep); }

/// Working memory of a step: a stack allocator over one block, released by scopes. Tracks peak
/// usage.
class Arena {
 public:
  /// Reserves `bytes`; invalidates earlier allocations.
  void reserve(std::int64_t bytes) {
    used_ = 0;
    if (bytes <= capacity_) return;
    block_ =
        std::make_unique_for_overwrite<std::int8_t[]>(static_cast<std::size_t>(bytes + kArenaStep));
    const auto address = reinterpret_cast<std::uintptr_t>(block_.get());
    const auto step = static_cast<std::uintptr_t>(kArenaStep);
    begin_ = block_.get() + (step - address % step) % step;
    capacity_ = bytes;
  }

  /// Uninitialized memory for `count` values, until the enclosing scope ends.
  template <typename T>
  T* take(std::int64_t count) {
    const std::int64_t bytes = arena_bytes(count * static_cast<std::int64_t>(sizeof(T)));
    ensure(used_ + bytes <= capacity_, "a step stays within its predicted memory");
    std::int8_t* at = begin_ + used_;
    used_ += bytes;
    if (used_ > high_water_) high_water_ = used_;
    return reinterpret_cast<T*>(at);
  }

  std::int64_t capacity() const { return capacity_; }
  /// Peak bytes in use.
  std::int64_t high_water() const { return high_water_; }

 private:
  friend class ArenaScope;
  std::unique_ptr<std::int8_t[]> block_;
  std::int8_t* begin_ = nullptr;
  std::int64_t capacity_ = 0;
  std::int64_t used_ = 0;
  std::int64_t high_water_ = 0;
};

/// Releases everything allocated in its scope.
class [[nodiscard]] ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), used_(arena.used_) {}
  ~ArenaScope() { arena_.used_ = used_; }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::int64_t used_;
};

}  // namespace triaccel::int8
