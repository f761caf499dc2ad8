#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_plot.h"

namespace triaccel {
namespace {

/// "amp test", or just "test" for a single run.
std::string label_of(const ReportedRun& run, std::string_view what) {
  if (run.label.empty() || what.empty()) return run.label + std::string(what);
  return run.label + " " + std::string(what);
}

bool any(const std::vector<IntervalRecord>& intervals,
         const std::function<bool(const IntervalRecord&)>& test) {
  return std::any_of(intervals.begin(), intervals.end(), test);
}

PlotSeries over_epochs(const ReportedRun& run, std::string_view what,
                       const std::function<double(const IntervalRecord&)>& value) {
  PlotSeries series{.label = label_of(run, what), .color = run.color};
  for (const IntervalRecord& interval : run.record.metrics.intervals)
    series.points.push_back({interval.report.epoch, value(interval)});
  return series;
}

std::string plain_plot(std::span<const ReportedRun> runs, const std::string& title,
                       const std::string& unit, bool from_zero,
                       const std::function<double(const IntervalRecord&)>& value) {
  LinePlot plot{.title = title, .x_label = "epoch", .unit = unit, .from_zero = from_zero};
  for (const ReportedRun& run : runs) plot.series.push_back(over_epochs(run, "", value));
  return figure(title, svg_line_plot(plot));
}

/// One series per evaluated split.
std::vector<PlotSeries> evaluations(const ReportedRun& run,
                                    const std::function<double(const EvaluationReport&)>& x) {
  std::vector<PlotSeries> all;
  for (const EvaluationReport& evaluation : run.record.metrics.evaluations) {
    const std::string label = label_of(run, evaluation.split);
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const PlotSeries& series) { return series.label == label; });
    if (found == all.end())
      found = all.insert(all.end(), {.label = label, .color = run.color, .markers = true});
    found->points.push_back({x(evaluation), 100 * evaluation.accuracy});
  }
  // With a single run, each split gets its own colour.
  if (run.label.empty())
    for (std::size_t i = 0; i < all.size(); ++i) all[i].color = i + 1;
  return all;
}

std::string accuracy_plot(std::span<const ReportedRun> runs) {
  LinePlot plot{.title = "Accuracy", .x_label = "epoch", .unit = "%"};
  for (const ReportedRun& run : runs) {
    plot.series.push_back(
        over_epochs(run, "train", [](const IntervalRecord& i) { return 100 * i.report.accuracy; }));
    plot.series.back().faint = true;
    // With several runs, labels for the faint training lines would be clutter.
    plot.series.back().named = runs.size() == 1 || run.record.metrics.evaluations.empty();
    for (PlotSeries& series : evaluations(run, [](const EvaluationReport& e) { return e.epoch; }))
      plot.series.push_back(std::move(series));
  }
  return figure(runs.size() == 1 ? "Accuracy" : "Accuracy (faint: training)", svg_line_plot(plot));
}

/// Accuracy against training time, to compare methods.
std::string accuracy_over_time_plot(std::span<const ReportedRun> runs) {
  LinePlot plot{
      .title = "Accuracy over training time", .x_label = "seconds of training", .unit = "%"};
  for (const ReportedRun& run : runs) {
    const std::vector<IntervalRecord>& intervals = run.record.metrics.intervals;
    const auto seconds_until = [&](const EvaluationReport& evaluation) {
      double seconds = 0;
      for (const IntervalRecord& interval : intervals)
        if (interval.report.step <= evaluation.step) seconds += interval.report.seconds;
      return seconds;
    };
    for (PlotSeries& series : evaluations(run, seconds_until))
      plot.series.push_back(std::move(series));
  }
  return figure(plot.title, svg_line_plot(plot));
}

/// The unit in which the largest value has one to four integer digits.
struct ByteUnit {
  const char* name;
  double bytes;
};
ByteUnit unit_for(double largest) {
  if (largest >= 0x1p30) return {"GiB", 0x1p30};
  if (largest >= 0x1p20) return {"MiB", 0x1p20};
  return {"KiB", 0x1p10};
}

std::int64_t budget_of(const ReportedRun& run) {
  return run.outcome.budget_bytes > 0 ? run.outcome.budget_bytes
                                      : run.record.metrics.info.budget_bytes;
}

std::string memory_plot(std::span<const ReportedRun> runs) {
  double largest = 0;
  for (const ReportedRun& run : runs)
    for (const IntervalRecord& interval : run.record.metrics.intervals)
      largest = std::max(largest, static_cast<double>(interval.report.memory.peak));
  const ByteUnit unit = unit_for(largest);
  LinePlot plot{
      .title = "Peak memory and budget", .x_label = "epoch", .unit = unit.name, .from_zero = true};
  for (const ReportedRun& run : runs) {
    // Memory reserved by the allocator, which the budget limits on a GPU.
    if (runs.size() == 1 && any(run.record.metrics.intervals, [](const auto& i) {
          return i.report.memory.reserved > i.report.memory.peak;
        })) {
      plot.series.push_back(over_epochs(run, "reserved", [&](const auto& i) {
        return static_cast<double>(i.report.memory.reserved) / unit.bytes;
      }));
      plot.series.back().faint = true;
    }
    plot.series.push_back(over_epochs(run, run.label.empty() ? "peak" : "", [&](const auto& i) {
      return static_cast<double>(i.report.memory.peak) / unit.bytes;
    }));
    const std::vector<PlotPoint>& points = plot.series.back().points;
    const auto peak = std::max_element(points.begin(), points.end(),
                                       [](PlotPoint a, PlotPoint b) { return a.y < b.y; });
    if (peak != points.end() && runs.size() == 1)
      plot.callouts.push_back({byte_text(static_cast<std::int64_t>(peak->y * unit.bytes)), *peak,
                               run.color,
                               /*below=*/plot.series.size() > 1});
    const double budget = static_cast<double>(budget_of(run));
    const auto same = [&](const PlotLevel& level) { return level.y == budget / unit.bytes; };
    // A budget far above the peak would flatten the curves.
    constexpr double kFarAbove = 8;
    if (budget > 0 && budget <= kFarAbove * largest &&
        std::none_of(plot.levels.begin(), plot.levels.end(), same))
      plot.levels.push_back({"budget", budget / unit.bytes});
  }
  return figure(plot.title, svg_line_plot(plot));
}

/// Activations stored for backward, compared with FP32; "" without compression.
std::string saved_plot(std::span<const ReportedRun> runs) {
  const auto compressed = [](const IntervalRecord& i) { return i.report.saved.has_value(); };
  double largest = 0;
  for (const ReportedRun& run : runs)
    for (const IntervalRecord& interval : run.record.metrics.intervals)
      if (compressed(interval))
        largest = std::max(largest, static_cast<double>(interval.report.saved->fp32_bytes));
  if (largest == 0) return "";
  const ByteUnit unit = unit_for(largest);
  LinePlot plot{.title = "Activations saved for backward, per pass",
                .x_label = "epoch",
                .unit = unit.name,
                .from_zero = true};
  for (const ReportedRun& run : runs) {
    if (!any(run.record.metrics.intervals, compressed)) continue;
    const auto add = [&](std::string_view what, auto bytes) {
      plot.series.push_back(over_epochs(run, what, [&](const IntervalRecord& i) {
        return compressed(i) ? static_cast<double>(bytes(*i.report.saved)) / unit.bytes
                             : std::nan("");
      }));
    };
    add("in FP32", [](const SavedCounts& saved) { return saved.fp32_bytes; });
    plot.series.back().faint = true;
    plot.series.back().named = runs.size() == 1;
    add("stored", [](const SavedCounts& saved) { return saved.all_held_bytes(); });
    const auto last = std::find_if(run.record.metrics.intervals.rbegin(),
                                   run.record.metrics.intervals.rend(), compressed);
    const SavedCounts& saved = *last->report.saved;
    if (runs.size() == 1 && saved.all_held_bytes() > 0)
      plot.callouts.push_back(
          {fmt::format("{:.1f}x smaller", static_cast<double>(saved.fp32_bytes) /
                                              static_cast<double>(saved.all_held_bytes())),
           {last->report.epoch, static_cast<double>(saved.all_held_bytes()) / unit.bytes},
           run.color,
           /*below=*/false});
  }
  return figure(plot.title, svg_line_plot(plot));
}

std::string batch_plot(std::span<const ReportedRun> runs) {
  LinePlot plot{
      .title = "Batch size", .x_label = "epoch", .unit = "samples per step", .from_zero = true};
  bool parts = false;
  for (const ReportedRun& run : runs) {
    const std::vector<IntervalRecord>& all = run.record.metrics.intervals;
    if (any(all, [](const auto& i) { return i.micro_batch_size < i.batch_size; })) {
      parts = true;
      plot.series.push_back(over_epochs(run, "micro-batch", [](const IntervalRecord& i) {
        return static_cast<double>(i.micro_batch_size);
      }));
      plot.series.back().faint = true;
      plot.series.back().named = false;
    }
    plot.series.push_back(over_epochs(
        run, "", [](const IntervalRecord& i) { return static_cast<double>(i.batch_size); }));
  }
  return figure(parts ? "Batch size (faint: micro-batch)" : "Batch size", svg_line_plot(plot));
}

/// A plot of an optional quantity: "" if no run has it.
std::string optional_plot(std::span<const ReportedRun> runs, const std::string& title,
                          const std::function<double(const IntervalRecord&)>& value, double usual) {
  const bool present = std::any_of(runs.begin(), runs.end(), [&](const ReportedRun& run) {
    return any(run.record.metrics.intervals, [&](const IntervalRecord& i) {
      return std::isfinite(value(i)) && value(i) != usual;
    });
  });
  return present ? plain_plot(runs, title, "", true, value) : "";
}

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

std::string figure(std::string_view title, const std::string& content, bool wide) {
  return fmt::format("<figure{}><figcaption>{}</figcaption>{}</figure>\n",
                     wide ? " class=\"wide\"" : "", html_escaped(title), content);
}

std::string score_figure(std::span<const ReportedRun> runs) {
  LinePlot plot{.title = "Efficiency score of each epoch",
                .x_label = "epoch",
                .unit = "accuracy % / (s × GB)",
                .from_zero = true};
  std::string remarks;
  for (const ReportedRun& run : runs) {
    const std::vector<EpochScore> scores = epoch_scores(run.record);
    if (scores.size() < 2) continue;
    plot.series.push_back({.label = run.label, .color = run.color, .markers = true});
    for (const EpochScore& score : scores)
      plot.series.back().points.push_back({score.epoch, score.score});
    remarks += fmt::format(
        "<p class=\"remark\">{} {}</p>",
        run.label.empty() ? "The score" : fmt::format("<b>{}</b>:", html_escaped(run.label)),
        html_escaped(score_sentence(scores)));
  }
  if (plot.series.empty()) return "";
  return figure(plot.title, svg_line_plot(plot) + remarks);
}

std::string plots_section(std::span<const ReportedRun> runs) {
  if (runs.empty()) return "";
  std::string out = "<section class=\"plots\">";
  out += plain_plot(runs, "Training loss", "", false,
                    [](const IntervalRecord& i) { return i.report.loss; });
  out += accuracy_plot(runs);
  if (runs.size() > 1) out += accuracy_over_time_plot(runs);
  out += memory_plot(runs);
  out += saved_plot(runs);
  out += plain_plot(runs, "Throughput", "samples/s", true, [](const IntervalRecord& i) {
    return i.report.seconds > 0 ? static_cast<double>(i.report.interval_samples) / i.report.seconds
                                : std::nan("");
  });
  out += batch_plot(runs);
  out += plain_plot(runs, "Learning rate", "", true,
                    [](const IntervalRecord& i) { return i.report.learning_rate; });
  out += optional_plot(
      runs, "Learning-rate scale of the batch size",
      [](const IntervalRecord& i) { return static_cast<double>(i.learning_rate_scale); }, 1);
  out += optional_plot(
      runs, "Gradient norm", [](const IntervalRecord& i) { return i.report.gradient_norm; }, 0);
  out += score_figure(runs);
  for (const ReportedRun& run : runs) out += precision_figure(run);
  return out + "</section>\n";
}

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
