#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "triaccel/device/memory_gauge.h"

namespace triaccel {

/// The budget of a session while it lives. Of all in the process, the last one's on a device is in
/// force there.
class HeldBudget {
 public:
  HeldBudget(MemoryGauge& gauge, c10::Device device, std::int64_t bytes);
  ~HeldBudget();
  HeldBudget(const HeldBudget&) = delete;
  HeldBudget& operator=(const HeldBudget&) = delete;

 private:
  void put_in_force();

  MemoryGauge& gauge_;
  c10::Device device_;
  std::int64_t bytes_;
};

}  // namespace triaccel
