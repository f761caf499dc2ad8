#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_plot.h"

namespace triaccel {
namespace {

std::string purposes_figure(std::span<const ReportedRun> runs) {
  std::array<bool, kMemoryPurposes> present{};
  std::vector<StackedBar> bars;
  for (const ReportedRun& run : runs) {
    const std::vector<IntervalRecord>& intervals = run.record.metrics.intervals;
    const auto fullest = std::max_element(intervals.begin(), intervals.end(),
                                          [](const IntervalRecord& a, const IntervalRecord& b) {
                                            return a.report.memory.peak < b.report.memory.peak;
                                          });
    if (fullest == intervals.end()) continue;
    const MemoryReport& memory = fullest->report.memory;
    StackedBar bar{.label = run.label.empty() ? "at the peak" : run.label,
                   .total_text = byte_text(memory.peak),
                   .limit = static_cast<double>(memory.limit)};
    // A budget far above the peak would leave no space for the parts.
    if (memory.limit > 8 * memory.peak) bar.limit = 0;
    if (memory.limit > 0) bar.total_text += " of " + byte_text(memory.limit);
    for (std::size_t i = 0; i < kMemoryPurposes; ++i) {
      bar.parts.push_back(static_cast<double>(memory.peak_by_purpose[i]));
      present[i] = present[i] || memory.peak_by_purpose[i] > 0;
    }
    bars.push_back(std::move(bar));
  }
  if (std::none_of(present.begin(), present.end(), [](bool p) { return p; })) return "";
  std::string legend = "<p class=\"legend\">";
  for (std::size_t i = 0; i < kMemoryPurposes; ++i)
    if (present[i])
      legend +=
          fmt::format("<span><span class=\"swatch c{}\"></span>{} {}</span> ", i % kPlotColors,
                      name_of(static_cast<MemoryPurpose>(i)),
                      bars.size() == 1 ? byte_text(static_cast<std::int64_t>(bars.front().parts[i]))
                                       : std::string());
  return figure("Memory by purpose", legend + "</p>" + svg_stacked_bars(bars, "Memory by purpose"),
                /*wide=*/true);
}

}  // namespace

std::string precision_figure(const ReportedRun& run) {
  AreaPlot plot{.title = "Precision of layers", .x_label = "epoch"};
  plot.shares.resize(kPrecisions);
  for (std::size_t p = 0; p < kPrecisions; ++p)
    plot.labels.emplace_back(name_of(static_cast<Precision>(p)));
  for (const IntervalRecord& interval : run.record.metrics.intervals) {
    std::int64_t layers = 0;
    for (const std::int64_t count : interval.layers_by_precision) layers += count;
    if (layers <= 0) continue;
    plot.x.push_back(interval.report.epoch);
    for (std::size_t p = 0; p < kPrecisions; ++p)
      plot.shares[p].push_back(static_cast<double>(interval.layers_by_precision[p]) /
                               static_cast<double>(layers));
  }
  if (plot.x.empty()) return "";
  const bool constant = std::all_of(plot.shares.begin(), plot.shares.end(), [](const auto& share) {
    return std::adjacent_find(share.begin(), share.end(), std::not_equal_to<>()) == share.end();
  });
  if (constant && !run.label.empty()) return "";
  if (!run.label.empty()) plot.title += ": " + run.label;
  return figure(plot.title, svg_area_plot(plot));
}

std::string purposes_section(std::span<const ReportedRun> runs) {
  return "<section class=\"plots\">" + purposes_figure(runs) + "</section>\n";
}

}  // namespace triaccel
