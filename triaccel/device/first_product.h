#pragma once

#include <functional>
#include <stdexcept>

namespace triaccel {

/// A library call that does not return.
struct Hang : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs `work` in a child process and says whether it ended by itself within `seconds`; a child
/// that did not is killed. Only for a process that has no other threads yet.
bool ends_in_time(const std::function<void()>& work, double seconds);

/// Tries a matrix product in a child process. Some builds of BLAS never return from their first one
/// on a processor that they do not know, as on Arm virtual machines. Throws Hang with
/// the remedy. `always` false: only where this has been seen, on Arm.
void check_first_product(bool always);

}  // namespace triaccel
