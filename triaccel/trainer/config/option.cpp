#include "triaccel/trainer/config/option.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "triaccel/base/utf8.h"

namespace triaccel {
namespace {

using Kind = Option::Kind;

constexpr std::string_view kAuto = "auto";

std::string_view type_name(Kind kind) {
  switch (kind) {
    case Kind::Switch:
      return "true or false";
    case Kind::Whole:
      return "a whole number";
    case Kind::Number:
      return "a number";
    case Kind::Text:
    case Kind::Choice:
      return "a text in quotes";
  }
  return "";
}

std::string range_text(const Range& range) {
  if (std::isinf(range.high)) return text("must be at least ", range.low);
  return text("must lie in ", range.above_low ? "(" : "[", range.low, ", ", range.high,
              range.below_high ? ")" : "]");
}

std::string value_text(const TomlValue& value) {
  if (const double* number = std::get_if<double>(&value)) {
    std::array<char, 32> digits{};
    return {digits.data(),
            std::to_chars(digits.data(), digits.data() + digits.size(), *number).ptr};
  }
  return std::visit([](const auto& known) { return text(std::boolalpha, known); }, value);
}

bool has_type(const TomlValue& value, Kind kind) {
  switch (kind) {
    case Kind::Switch:
      return std::holds_alternative<bool>(value);
    case Kind::Whole:
      return std::holds_alternative<std::int64_t>(value);
    case Kind::Number:
      return std::holds_alternative<double>(value);
    case Kind::Text:
    case Kind::Choice:
      return std::holds_alternative<std::string>(value);
  }
  return false;
}

template <typename T>
std::optional<TomlValue> parsed_number(std::string_view written) {
  T value = {};
  const char* const end = written.data() + written.size();
  const auto [stop, error] = std::from_chars(written.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

std::optional<TomlValue> parsed(std::string_view written, Kind kind) {
  switch (kind) {
    case Kind::Switch:
      if (written == "true" || written == "on" || written == "1") return true;
      if (written == "false" || written == "off" || written == "0") return false;
      return {};
    case Kind::Whole:
      return parsed_number<std::int64_t>(written);
    case Kind::Number:
      return parsed_number<double>(written);
    case Kind::Text:
    case Kind::Choice:
      return std::string(written);
  }
  return {};
}

}  // namespace

Option& Option::or_auto(double number) {
  automatic = number;
  get = [get = std::move(get), number](const RunConfig& config) {
    const TomlValue value = get(config);
    return value == TomlValue(number) ? TomlValue(std::string(kAuto)) : value;
  };
  return *this;
}

std::string Option::problem_with(const TomlValue& value) const {
  if (automatic && value == TomlValue(std::string(kAuto))) return "";
  if (!has_type(value, kind)) return text("must be ", type_name(kind));
  if (kind == Kind::Whole || kind == Kind::Number) {
    const double number = kind == Kind::Whole ? static_cast<double>(std::get<std::int64_t>(value))
                                              : std::get<double>(value);
    return range.contains(number) ? "" : text(range_text(range), ", got ", value_text(value));
  }
  if (kind == Kind::Switch) return "";
  const std::string& written = std::get<std::string>(value);
  // What is not cannot be read back from config.toml.
  if (!is_utf8(written)) return "must be text in UTF-8";
  if (values == nullptr) return "";
  const std::vector<std::string> known = values();
  if (std::ranges::find(known, written) != known.end()) return "";
  return not_one_of(written, known) + std::string(hint);
}

void Option::set(RunConfig& config, TomlValue value, std::string_view place) const {
  if (automatic && value == TomlValue(std::string(kAuto))) return assign(config, *automatic);
  if (kind == Kind::Number && std::holds_alternative<std::int64_t>(value))
    value = static_cast<double>(std::get<std::int64_t>(value));
  const auto& [former, name] = renamed_value;
  if (!former.empty() && value == TomlValue(std::string(former))) value = std::string(name);
  if (const std::string problem = problem_with(value); !problem.empty())
    throw UsageError(text(place, problem));
  assign(config, value);
}

void Option::set_written(RunConfig& config, std::string_view written,
                         std::string_view place) const {
  const bool is_auto = automatic && written == kAuto;
  const std::optional<TomlValue> value = parsed(written, is_auto ? Kind::Text : kind);
  if (!value)
    throw UsageError(text(place, "must be ", type_name(kind), automatic ? " or auto" : "",
                          ", got '", written, "'"));
  set(config, *value, place);
}

std::string Option::shown(const RunConfig& config) const { return value_text(get(config)); }

bool Option::is_default(const RunConfig& config) const { return get(config) == get(RunConfig{}); }

void Option::require_effect(const RunConfig& config, const Condition* needed) const {
  if (needed == nullptr || needed->holds(config) || is_default(config)) return;
  const std::string value = shown(config);
  // Off is off everywhere, and --precision fp32 is what --method fp32 does.
  if (value == "off" || value == config.train.method.name()) return;
  throw UsageError(text("[", flag, "] only has an effect with ", needed->needs));
}

}  // namespace triaccel
