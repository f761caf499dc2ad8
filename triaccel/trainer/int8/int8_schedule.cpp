#include "triaccel/trainer/int8/int8_schedule.h"

#include <charconv>
#include <optional>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

std::optional<std::int32_t> whole_number(std::string_view written) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size()) return std::nullopt;
  return value;
}

}  // namespace

int8::StepSchedule int8_schedule(std::string_view written, int8::StepSchedule fallback,
                                 ScheduleRange range, std::string_view who) {
  if (written.empty()) return fallback;
  const std::size_t dash = written.find('-', 1);
  const auto first = whole_number(written.substr(0, dash));
  const auto last = dash == written.npos ? first : whole_number(written.substr(dash + 1));
  const auto allowed = [&](const std::optional<std::int32_t>& value) {
    return value && *value >= range.lowest && *value <= range.highest;
  };
  require(allowed(first) && allowed(last), who, "'", written,
          "' is neither a whole number nor two with a dash between, each in [", range.lowest, ", ",
          range.highest, "]");
  return {*first, *last};
}

}  // namespace triaccel
