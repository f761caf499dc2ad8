#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// When activations are profiled: often while a run is young, when gradients change fast (a last
/// layer that begins with zeros lets none through), then after twice as many steps each time, up to
/// `every` of them; as often as at first again after too much compression noise.
class ProfileSchedule {
 public:
  explicit ProfileSchedule(std::int64_t every);

  bool due(std::int64_t step) const { return step >= next_; }

  /// A profile after `step` steps. One that was not due, for a new ratio, changes nothing.
  void start(std::int64_t step);

  /// It could not be made, for want of memory.
  void postpone(std::int64_t step) { next_ = step + std::max(gap_, first_); }

  /// It found so much compression noise, over its target.
  void found(double noise, std::int64_t step);

  StateView state(std::string name) const;
  /// Due at once where the checkpoint has no schedule.
  void restore(const StateMap& saved, const std::string& name);

 private:
  std::int64_t every_;
  std::int64_t first_;     // steps until the second profile
  std::int64_t gap_ = 0;   // steps until the next one; 0: there was none
  std::int64_t next_ = 0;  // step
  bool quiet_ = true;      // the last one found little noise: the gap grows
};

}  // namespace triaccel
