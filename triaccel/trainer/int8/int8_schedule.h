#pragma once

#include <cstdint>
#include <string_view>

#include "triaccel/int8/training/recipe.h"

namespace triaccel {

/// What a value may be.
struct ScheduleRange {
  std::int32_t lowest = 0;
  std::int32_t highest = 0;
};

/// "4" or "3-6" as a staircase; "" is `fallback`. Throws UsageError, naming `who`, for what is
/// neither or leaves the range.
int8::StepSchedule int8_schedule(std::string_view written, int8::StepSchedule fallback,
                                 ScheduleRange range, std::string_view who);

}  // namespace triaccel
