#include "triaccel/telemetry/console/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/utf8.h"

namespace triaccel {
namespace {

/// A loss that has grown beyond reading is shown by its magnitude.
std::string loss_text(double loss) {
  return std::abs(loss) < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

}  // namespace

void add_interval(ProgressState& state, const StepReport& report, const StepPlan& plan) {
  state.report = report;
  state.plan = plan;
  if (!(report.seconds > 0)) return;
  const double rate = static_cast<double>(report.interval_samples) / report.seconds;
  // The first interval includes the warm-up of kernels and allocator, so its weight decays quickly.
  constexpr double kWeightOfNewest = 0.3;
  state.samples_per_second =
      state.samples_per_second > 0
          ? state.samples_per_second + kWeightOfNewest * (rate - state.samples_per_second)
          : rate;
  state.training_seconds += report.seconds;
}

/// Of the schedule, which a run that counts steps goes through at the pace of its first batch.
double share_done(const ProgressState& state) {
  if (state.info.total_samples <= 0) return 0;
  const double of_samples =
      static_cast<double>(state.report.samples) / static_cast<double>(state.info.total_samples);
  return std::clamp(state.report.progress > 0 ? state.report.progress : of_samples, 0.0, 1.0);
}

double seconds_left(const ProgressState& state) {
  if (state.info.total_samples <= 0 || !(state.samples_per_second > 0)) return -1;
  const double done = share_done(state);
  // Where the batch has grown, a part of the schedule takes more samples than the first batch's.
  const double samples_a_share = state.report.samples > 0 && done > 0
                                     ? static_cast<double>(state.report.samples) / done
                                     : static_cast<double>(state.info.total_samples);
  const double evaluation =
      state.training_seconds > 0 ? state.evaluation_seconds / state.training_seconds : 0;
  return (1 - done) * samples_a_share / state.samples_per_second * (1 + evaluation);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-:--";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  const std::int64_t minutes = whole / 60;
  const std::int64_t hours = minutes / 60;
  if (hours >= 24) return fmt::format("{}d {:02}:{:02}", hours / 24, hours % 24, minutes % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string precision_mix(const StepPlan& plan) {
  if (plan.layers.empty()) return "";
  std::array<std::pair<std::int64_t, Precision>, 4> counts = {
      {{0, Precision::Fp32}, {0, Precision::Bf16}, {0, Precision::Fp16}, {0, Precision::Int8}}};
  for (const LayerPlan& layer : plan.layers)
    ++counts[static_cast<std::size_t>(layer.compute)].first;
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string mix;
  for (const auto& [count, precision] : counts) {
    if (count == 0) continue;
    if (count == static_cast<std::int64_t>(plan.layers.size()))
      return std::string(name_of(precision));
    mix += fmt::format("{}{} {}", mix.empty() ? "" : " ", name_of(precision), count);
  }
  return mix;
}

std::string memory_text(const MemoryReport& memory) {
  const std::string peak = byte_text(memory.peak);
  if (memory.limit <= 0) return peak;
  const std::string limit = byte_text(memory.limit);
  const std::size_t unit = peak.find(' ');
  const bool same_unit = peak.substr(unit) == limit.substr(limit.find(' '));
  return (same_unit ? peak.substr(0, unit) : peak) + "/" + limit;
}

std::string start_line(const RunInfo& info) {
  std::string line = fmt::format("{} on {}, {}", info.model, info.data, info.method);
  if (!info.device.empty()) line += ", " + info.device;
  if (info.budget_bytes > 0) line += fmt::format(", budget {}", byte_text(info.budget_bytes));
  if (info.first_step > 0) line += fmt::format(", resumed after step {}", info.first_step);
  return printable(line);
}

std::string evaluation_line(const EvaluationReport& report, double epochs) {
  return printable(fmt::format("epoch {:5.2f}/{:g}  {} accuracy {:.2f}%  loss {}  {:.1f} s",
                               report.epoch, epochs, report.split, 100 * report.accuracy,
                               loss_text(report.loss), report.seconds));
}

std::string finish_line(const RunSummary& summary) {
  const MemoryReport memory{.peak = summary.peak_bytes, .limit = summary.budget_bytes};
  const std::string result =
      std::isnan(summary.accuracy)
          ? ""
          : fmt::format("accuracy {:.2f}%  loss {}  ", summary.accuracy, loss_text(summary.loss));
  const std::string reason = summary.reason.empty() ? "" : fmt::format(" ({})", summary.reason);
  return printable(fmt::format("{} in {}{}: {}{} steps  peak {}", summary.status,
                               duration_text(summary.seconds), reason, result, summary.steps,
                               memory_text(memory)));
}

std::string plain_line(const ProgressState& state) {
  const StepReport& r = state.report;
  std::string line =
      fmt::format("epoch {:.2f}/{:g}  step {}  loss {}  acc {:.2f}%  {:.0f} samples/s  mem {}",
                  r.epoch, state.info.epochs, r.step, loss_text(r.loss), 100 * r.accuracy,
                  state.samples_per_second, memory_text(r.memory));
  line += fmt::format("  batch {}", state.plan.batch_size);
  if (const std::string mix = precision_mix(state.plan); !mix.empty()) line += "  " + mix;
  line += fmt::format("  lr {:.3g}", r.learning_rate);
  if (const double left = seconds_left(state); left >= 0) line += "  eta " + duration_text(left);
  return line;
}

}  // namespace triaccel
