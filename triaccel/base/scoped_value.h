#pragma once

#include <utility>

namespace triaccel {

/// Sets `slot` for this scope and puts the old value back, also when unwinding.
template <typename T>
class [[nodiscard]] ScopedValue {
 public:
  ScopedValue(T& slot, T value) : slot_(slot), previous_(std::exchange(slot, std::move(value))) {}
  ~ScopedValue() { slot_ = std::move(previous_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& slot_;
  T previous_;
};

}  // namespace triaccel
