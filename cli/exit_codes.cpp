
#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "cli/exit_codes.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/console/progress_text.h"

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

/// A message of the library with the flag that it is about instead of the function's name.
std::string for_users(std::string message) {
  struct Tag {
    std::string_view function, flag;
  };
  for (const auto& [function, flag] :
       {Tag{"[make_model]", "[--model]"}, Tag{"[PlanSchedule]", "[--replay]"},
        Tag{"[kernel choices]", "[--kernels]"}, Tag{"[TextData]", "[--data]"}})
    if (message.starts_with(function)) message.replace(0, function.size(), flag);
  return message;
}

}  // namespace

int report_failure(const std::exception& error) {
  const auto* memory = dynamic_cast<const c10::OutOfMemoryError*>(&error);
  const std::string message =
      memory != nullptr ? std::string(memory->what_without_backtrace()) + "; raise --budget"
                        : for_users(error.what());
  fmt::print(stderr, "triaccel: {}\n", printable(message, "\n"));  // may have several lines
  return code_of(error);
}

}  // namespace triaccel::cli
