#include "cli/failures.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <filesystem>

#include "cli/exit_codes.h"
#include "triaccel/base/error.h"

namespace triaccel::cli {
namespace {

template <typename Error>
bool is(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) != nullptr;
}

ExitCode code_of(const std::exception& error) {
  if (is<UsageError>(error)) return kUsage;
  if (is<DataError>(error)) return kData;
  if (is<RunLocked>(error)) return kLocked;
  if (is<StorageError>(error) || is<std::filesystem::filesystem_error>(error)) return kStorage;
  if (is<OutOfMemory>(error) || is<c10::OutOfMemoryError>(error)) return kOutOfMemory;
  if (is<NumericalFailure>(error)) return kNumerical;
  return kInternal;
}

}  // namespace

int report_failure(const std::exception& error) {
  if (const auto* memory = dynamic_cast<const c10::OutOfMemoryError*>(&error))
    fmt::print(stderr, "triaccel: {}; raise --budget\n", memory->what_without_backtrace());
  else
    fmt::print(stderr, "triaccel: {}\n", error.what());
  return code_of(error);
}

}  // namespace triaccel::cli
