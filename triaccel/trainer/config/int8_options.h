#pragma once

#include <cstdint>
#include <string_view>

#include "triaccel/int8/training/recipe.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/int8/int8_data.h"

namespace triaccel {

/// How a run of method "elasticzo-int8" trains.
struct Int8Options {
  int8::StepOptions step = {};  // what stays the same in every step
  int8::Recipe recipe = {};     // what changes with them
  std::int64_t total_steps = 0;

  /// The options of the step after `done_steps`.
  int8::StepOptions at(std::uint64_t done_steps) const {
    return int8::with_recipe(step, recipe, static_cast<std::int64_t>(done_steps), total_steps);
  }
};

/// The integer network a configuration names, for data of that shape. Throws UsageError for one
/// that has no integer form.
int8::Network int8_network_for(const RunConfig& config, const Int8Data& data);

/// What a configuration says about integer training, with the recipe's values where it says
/// nothing; runs in libtorch's thread pool.
Int8Options int8_options(const RunConfig& config, const int8::Network& network,
                         std::int64_t samples_per_epoch);

/// Where a configuration's samples are and which of them count.
DataOptions int8_data_options(const RunConfig& config);

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
