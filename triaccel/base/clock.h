#pragma once

#include <chrono>

namespace triaccel {

/// Seconds since construction or the last restart, on the monotonic clock.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  /// Seconds since the last restart, which this call is from now on.
  double restart() {
    const double elapsed = seconds();
    start_ = std::chrono::steady_clock::now();
    return elapsed;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace triaccel
