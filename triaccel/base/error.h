#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace triaccel {

/// Joins values into one message: text("got ", 3, " of ", n).
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Each type below exists because the command line answers it with an exit code of its own, or
// because the trainer catches it. Everything else is a std::exception and is a bug of ours.

/// The caller's mistake: a wrong argument, option or configuration.
struct UsageError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A data file that is missing, truncated or malformed.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Another process holds the run directory.
struct RunLocked : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Writing or reading our own files (checkpoints, metrics) failed.
struct StorageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The device ran out of memory; the trainer answers with a smaller plan.
struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The loss or the weights are not finite, and neither skipped steps nor rollbacks helped.
struct NumericalFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `who` names the public call the user made, not the helper that noticed.
template <typename... Parts>
void require(bool ok, std::string_view who, const Parts&... why) {
  if (!ok) throw UsageError(text("[", who, "] ", why...));
}

/// An invariant of our own code; when it does not hold, the message names the line. The built-ins
/// are what std::source_location is made of; clang 14 cannot compile libstdc++'s.
inline void ensure(bool ok, std::string_view invariant, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if (!ok) throw std::logic_error(text(file, ":", line, ": invariant violated: ", invariant));
}

}  // namespace triaccel
