#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "triaccel/base/utf8.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// The content of a progress line, gathered from the sink calls.
struct ProgressState {
  RunInfo info = {};
  StepReport report = {};
  StepPlan plan = {};
  double samples_per_second = 0;  // smoothed over intervals
  double training_seconds = 0;    // since the start or resumption
  double evaluation_seconds = 0;  // likewise
  bool finished = false;
};

/// Updates the state with one interval.
void add_interval(ProgressState& state, const StepReport& report, const StepPlan& plan);

/// Fraction of the run completed, in [0, 1]; 0 if its length is unknown.
double share_done(const ProgressState& state);

/// Estimated seconds to the end, including evaluations at their share so far; negative: unknown.
double seconds_left(const ProgressState& state);

inline constexpr std::size_t kProgressFields = 10;
/// Maximum width of each field so far. Fields never shrink, so the line does not jitter.
using FieldWidths = std::array<std::size_t, kProgressFields>;

struct LiveLineStyle {
  int columns = 80;
  bool color = false;
  bool unicode = true;
};

/// The live line, at most `columns - 1` cells wide (writing to the last column may wrap). On a
/// narrow terminal the least important fields are dropped first.
std::string live_line(const ProgressState& state, const LiveLineStyle& style, FieldWidths& widths);

/// The same as a plain line of text with all fields.
std::string plain_line(const ProgressState& state);

std::string start_line(const RunInfo& info);
std::string evaluation_line(const EvaluationReport& report, double epochs);
std::string finish_line(const RunSummary& summary);

/// Number of layers per precision: "fp32" if all are, otherwise "bf16 18 fp32 3", largest first.
std::string precision_mix(const StepPlan& plan);

/// Peak and limit, "212/300 MiB"; the unit once if both share it.
std::string memory_text(const MemoryReport& memory);

/// "0:07", "12:34", "1:02:03", "2d 03:04"; "-:--" if unknown (negative).
std::string duration_text(double seconds);

}  // namespace triaccel
