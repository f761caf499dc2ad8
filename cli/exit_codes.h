#pragma once

#include <exception>
#include <string>

namespace triaccel::cli {

/// Exit codes, documented in docs/usage.md; scripts rely on them. Stopped by a signal: 128 + its
/// number.
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
};

/// From now on a failure is also one JSON document on standard output:
/// {"error": {"kind", "message", "next"}, "exit": code}.
void report_failures_as_json();

/// Says on standard error what went wrong, and answers with its exit code.
int report_failure(const std::exception& error);
int report_failure(ExitCode code, const std::string& message);

}  // namespace triaccel::cli
