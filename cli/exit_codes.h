#pragma once

#include <exception>

namespace triaccel::cli {

/// Exit codes, documented in README.md; scripts rely on them.
enum ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kData = 3,
  kLocked = 4,
  kStorage = 5,
  kOutOfMemory = 6,  // at the smallest batch
  kNumerical = 7,
  kHang = 8,
  kInterrupted = 130,  // SIGINT; 128 + the number for other signals
};

/// Says on standard error what went wrong, and answers with its exit code.
int report_failure(const std::exception& error);

}  // namespace triaccel::cli
