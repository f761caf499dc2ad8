#include "cli/exit_codes.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "triaccel/base/error.h"
#include "triaccel/base/utf8.h"
#include "triaccel/device/first_product.h"

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
  if (is<OutOfMemory>(error) || is<std::bad_alloc>(error)) return kOutOfMemory;
  if (is<NumericalFailure>(error)) return kNumerical;
  if (is<Hang>(error)) return kHang;
  return kInternal;
}

/// A message of the library that names the flag it is about, and no function or class.
std::string for_users(std::string message) {
  struct Tag {
    std::string_view function, flag;
  };
  for (const auto& [function, flag] :
       {Tag{"[make_model]", "[--model]"}, Tag{"[PlanSchedule]", "[--replay]"},
        Tag{"[kernel choices]", "[--kernels]"}, Tag{"[TextData]", "[--data]"}})
    if (message.starts_with(function)) message.replace(0, function.size(), flag);
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == ' '; };
  const std::size_t end = message.find("] ");
  if (!message.starts_with('[') || end == std::string::npos) return message;
  const bool names_command =
      std::all_of(message.begin() + 1, message.begin() + static_cast<std::ptrdiff_t>(end), is_word);
  const bool names_flag = message.starts_with("[--");
  return names_command || names_flag ? message : message.substr(end + 2);
}

bool as_json = false;

std::string_view kind_of(ExitCode code) {
  switch (code) {
    case kUsage:
      return "usage";
    case kData:
      return "data";
    case kLocked:
      return "locked";
    case kStorage:
      return "storage";
    case kOutOfMemory:
      return "out_of_memory";
    case kNumerical:
      return "numerical";
    case kHang:
      return "hang";
    default:
      return "internal";
  }
}

std::string message_of(const std::exception& error) {
  if (is<std::bad_alloc>(error)) return "no memory is left; use a smaller model or batch";
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return text(file->path1().string(), ": ", file->code().message());
  return for_users(error.what());
}

/// Messages say what happened, and after the last semicolon what to do next.
void print_json(ExitCode code, const std::string& message) {
  const std::size_t end = message.rfind("; ");
  const bool advises = end != std::string::npos;
  const std::string next = advises          ? message.substr(end + 2)
                           : code == kUsage ? text("see '", program_name, " help'")
                                            : "see the message";
  const nlohmann::ordered_json all = {
      {"error", {{"kind", kind_of(code)}, {"message", message.substr(0, end)}, {"next", next}}},
      {"exit", static_cast<int>(code)}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  std::fputs((all.dump(-1, ' ', /*ensure_ascii=*/true, replace) + "\n").c_str(), stdout);
}

}  // namespace

void report_failures_as_json() { as_json = true; }

int report_failure(const std::exception& error) {
  return report_failure(code_of(error), message_of(error));
}

int report_failure(ExitCode code, const std::string& message) {
  say(text(program_name, ": ", printable(message, "\n"), "\n"));  // may have several lines
  if (as_json) print_json(code, message);
  return code;
}

}  // namespace triaccel::cli
