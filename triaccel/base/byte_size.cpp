#include "triaccel/base/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{{"", 1},
                                                                        {"B", 1},
                                                                        {"KiB", 1024.0},
                                                                        {"MiB", 1048576.0},
                                                                        {"GiB", 1073741824.0},
                                                                        {"TiB", 1099511627776.0},
                                                                        {"kB", 1e3},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9}}};

/// Splits "1.5 GiB" into its number and its unit.
std::pair<double, std::string_view> number_and_unit(std::string_view written,
                                                    std::string_view who) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(written.data(), written.data() + written.size(), number);
  require(error == std::errc{} && std::isfinite(number) && number >= 0, who, "'", written,
          "' is not a memory size; write for example 300MiB, 2GB, 80% or none");
  std::string_view unit = written.substr(static_cast<std::size_t>(end - written.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  return {number, unit};
}

std::string rounded_text(std::int64_t bytes, double (*round)(double)) {
  constexpr std::array<const char*, 5> names = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < names.size(); ++unit) value /= 1024;
  const bool whole = unit == 0 || std::abs(value) >= 100 || value == std::floor(value);
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), whole ? "%.0f %s" : "%.1f %s",
                whole ? round(value) : round(10 * value) / 10, names[unit]);
  return out.data();
}

}  // namespace

std::int64_t parse_byte_size(std::string_view written, std::string_view who) {
  const auto [number, unit] = number_and_unit(written, who);
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    require(number * factor < 0x1p62, who, "'", written, "' is more than any machine has");
    return static_cast<std::int64_t>(number * factor);
  }
  throw UsageError(text("[", who, "] unknown unit '", unit, "' in '", written,
                        "'; use KiB, MiB, GiB, kB, MB or GB"));
}

Budget::Budget(std::string_view written, std::string_view who) : text_(written) {
  if (written.empty() || written == "none") {
    text_ = "none";
    return;
  }
  const auto [number, unit] = number_and_unit(written, who);
  if (unit == "%") {
    require(number > 0 && number <= 100, who, "a share must lie in (0, 100] %, got ", written);
    share_ = number / 100;
    return;
  }
  bytes_ = parse_byte_size(written, who);
  require(bytes_ > 0, who, "0 bytes cannot train anything; write none for no budget");
}

std::int64_t Budget::bytes_on(std::int64_t device_bytes) const {
  return share_ > 0 ? static_cast<std::int64_t>(share_ * static_cast<double>(device_bytes))
                    : bytes_;
}

std::string byte_text(std::int64_t bytes) { return rounded_text(bytes, std::round); }

std::string byte_text_upwards(std::int64_t bytes) { return rounded_text(bytes, std::ceil); }

}  // namespace triaccel
