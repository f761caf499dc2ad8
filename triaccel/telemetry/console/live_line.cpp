#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/console/progress_text.h"

namespace triaccel {
namespace {

constexpr const char* kReset = "\x1b[0m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kCyan = "\x1b[36m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kRed = "\x1b[31m";

constexpr std::size_t kGap = 2;  // cells between fields
constexpr std::size_t kSkinnyBar = 5;
constexpr std::size_t kWideBar = 32;

/// "label value": the label is dimmed, the value right-aligned to the widest so far.
struct Field {
  const char* label = "";
  std::string value = {};
  const char* color = "";
  int rank = 0;  // priority: 1 is dropped last; 0: not shown
};

/// Five characters for typical values: 0.432, 12.34, 123.4, nan.
std::string short_number(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double size = std::abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-3)) return fmt::format("{:.1e}", value);
  return fmt::format("{:.{}f}", value, size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}

/// 950, 1.23k, 45.6k, 1.20M.
std::string short_count(double value) {
  if (!(value >= 0)) return "-";
  const char* unit = "";
  for (const char* next : {"k", "M", "G"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  const int decimals = *unit == '\0' || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, unit);
}

const char* memory_color(const MemoryReport& memory) {
  if (memory.limit <= 0) return "";
  const double share = static_cast<double>(memory.peak) / static_cast<double>(memory.limit);
  return share > 0.98 ? kRed : share > 0.92 ? kYellow : "";
}

/// Tenths of an epoch are shown only for runs of few epochs; the bar shows the rest.
std::string epoch_text(double epoch, double epochs) {
  return epochs >= 10 ? fmt::format("{:.0f}/{:g}", std::floor(epoch), epochs)
                      : fmt::format("{:.1f}/{:g}", epoch, epochs);
}

std::array<Field, kProgressFields> fields_of(const ProgressState& state) {
  const StepReport& r = state.report;
  const bool has_length = state.info.total_samples > 0;
  const std::string mix = precision_mix(state.plan);
  // With the control loop, its decisions take priority over epoch, accuracy and throughput.
  const bool controlled = state.info.method == "triaccel";
  const Field percent{"", fmt::format("{:3.0f}%", std::floor(100 * share_done(state))), kBold,
                      has_length ? 1 : 0};
  const Field clock =
      state.finished ? Field{"in", duration_text(state.training_seconds), "", 3}
                     : Field{"eta", duration_text(seconds_left(state)), "", has_length ? 3 : 0};
  return {{percent,
           {"epoch", epoch_text(r.epoch, state.info.epochs), "", controlled ? 7 : 4},
           {"loss", short_number(r.loss), std::isfinite(r.loss) ? "" : kRed, 2},
           {"acc", fmt::format("{:.1f}%", 100 * r.accuracy), "", controlled ? 8 : 5},
           {"", short_count(state.samples_per_second) + "/s", "", controlled ? 9 : 7},
           {"", memory_text(r.memory), memory_color(r.memory), controlled ? 4 : 6},
           {"batch", fmt::format("{}", state.plan.batch_size), "", controlled ? 5 : 8},
           {"", mix, "",
            mix.empty()  ? 0
            : controlled ? 6
                         : 9},
           {"lr", fmt::format("{:.2e}", r.learning_rate), "", 10},
           clock}};
}

std::size_t cells(const Field& field, std::size_t value_width) {
  const std::size_t label = std::string_view(field.label).size();
  return value_width + (label > 0 ? label + 1 : 0);
}

std::string bar(double share, std::size_t width, bool finished, const LiveLineStyle& style) {
  const double filled = share * static_cast<double>(width);
  const auto whole = static_cast<std::size_t>(filled);
  const bool half = whole < width && filled - std::floor(filled) >= 0.5;
  std::string done;
  for (std::size_t i = 0; i < whole; ++i) done += style.unicode ? "━" : "#";
  if (half) done += style.unicode ? "╸" : "#";
  std::string rest;
  for (std::size_t i = whole + (half ? 1 : 0); i < width; ++i) rest += style.unicode ? "─" : "-";
  if (!style.color) return done + rest;
  return fmt::format("{}{}{}{}{}", finished ? kGreen : kCyan, done, kReset, kDim, rest) + kReset;
}

std::string painted(const Field& field, std::size_t value_width, bool color) {
  std::string value = fmt::format("{:>{}}", field.value, value_width);
  const bool labelled = *field.label != '\0';
  if (!color) return labelled ? fmt::format("{} {}", field.label, value) : value;
  if (*field.color != '\0') value = field.color + value + kReset;
  return labelled ? fmt::format("{}{}{} {}", kDim, field.label, kReset, value) : value;
}

}  // namespace

std::string live_line(const ProgressState& state, const LiveLineStyle& style, FieldWidths& widths) {
  const std::array<Field, kProgressFields> fields = fields_of(state);
  const std::size_t room = static_cast<std::size_t>(std::max(style.columns - 1, 1));

  std::array<std::size_t, kProgressFields> by_rank{};
  for (std::size_t i = 0; i < kProgressFields; ++i) {
    by_rank[i] = i;
    widths[i] = std::max(widths[i], fields[i].value.size());
  }
  std::sort(by_rank.begin(), by_rank.end(),
            [&](std::size_t a, std::size_t b) { return fields[a].rank < fields[b].rank; });

  // The bar, at its minimum width, ranks after the five most important fields.
  constexpr int kRankOfBar = 6;
  const bool has_length = state.info.total_samples > 0;
  std::array<bool, kProgressFields> shown{};
  std::size_t used = 0;
  std::size_t bar_width = 0;
  for (const std::size_t i : by_rank) {
    if (fields[i].rank == 0) continue;
    if (fields[i].rank >= kRankOfBar && bar_width == 0 && has_length) {
      if (used + kGap + kSkinnyBar > room) break;
      bar_width = kSkinnyBar;
      used += kGap + kSkinnyBar;
    }
    const std::size_t need = cells(fields[i], widths[i]) + (used > 0 ? kGap : 0);
    shown[i] = used + need <= room;
    if (shown[i]) used += need;
  }
  if (bar_width > 0) bar_width = std::min(kWideBar, kSkinnyBar + (room - used));

  std::string line;
  for (std::size_t i = 0; i < kProgressFields; ++i) {
    if (shown[i]) {
      line.append(line.empty() ? 0 : kGap, ' ');
      line += painted(fields[i], widths[i], style.color);
    }
    if (i == 0 && bar_width > 0) {
      line.append(line.empty() ? 0 : kGap, ' ');
      line += bar(share_done(state), bar_width, state.finished, style);
    }
  }
  return line;
}

}  // namespace triaccel
