#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// What a progress line shows, gathered from the calls a sink gets.
struct ProgressState {
  RunInfo info = {};
  StepReport report = {};
  StepPlan plan = {};
  double samples_per_second = 0;  // smoothed over intervals
  double training_seconds = 0;    // since the start or resumption
  double evaluation_seconds = 0;  // likewise
  bool finished = false;
};

/// Takes one more interval into account.
void add_interval(ProgressState& state, const StepReport& report, const StepPlan& plan);

/// Share of the run that is done, in [0, 1]; 0 when its length is not known.
double share_done(const ProgressState& state);

/// Seconds to the end, with evaluations in the proportion seen so far; negative: not known.
double seconds_left(const ProgressState& state);

inline constexpr std::size_t kProgressFields = 10;
/// The widest each field has been: a field never gets narrower again, so the line does not jitter.
using FieldWidths = std::array<std::size_t, kProgressFields>;

struct LiveLineStyle {
  int columns = 80;
  bool color = false;
  bool unicode = true;
};

/// The live line, at most `columns - 1` cells wide (the last one stays free: a terminal that writes
/// there may wrap). What matters most stays longest when the terminal is narrow.
std::string live_line(const ProgressState& state, const LiveLineStyle& style, FieldWidths& widths);

/// The same as a plain line of text, with everything in it.
std::string plain_line(const ProgressState& state);

std::string start_line(const RunInfo& info);
std::string evaluation_line(const EvaluationReport& report, double epochs);
std::string finish_line(const RunSummary& summary);

/// Layers by precision: "fp32" when all are, "bf16 18 fp32 3" otherwise, the most first.
std::string precision_mix(const StepPlan& plan);

/// Peak against limit, "212/300 MiB": the unit once when both have the same.
std::string memory_text(const MemoryReport& memory);

/// "0:07", "12:34", "1:02:03", "2d 03:04"; "-:--" for a time that is not known (negative).
std::string duration_text(double seconds);

/// Control characters, which a name or a message may carry, become spaces.
std::string printable(std::string_view text);

}  // namespace triaccel
