#include <fmt/format.h>

#include <algorithm>

#include "triaccel/telemetry/records/plan_record.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_heat_map.h"
#include "triaccel/telemetry/report/svg_plot.h"

namespace triaccel {
namespace {

std::string layer_name(const ReportedRun& run, std::size_t layer) {
  const std::vector<std::string>& names = run.record.metrics.info.layer_names;
  return layer < names.size() ? names[layer] : fmt::format("layer {}", layer);
}

std::string title_for(const ReportedRun& run, const std::string& title) {
  return run.label.empty() ? title : title + ": " + run.label;
}

/// The intervals with as many layers as the last one, in order of epochs.
std::vector<const IntervalRecord*> with_layers(const ReportedRun& run) {
  std::vector<const IntervalRecord*> chosen;
  const std::vector<IntervalRecord>& all = run.record.metrics.intervals;
  if (all.empty()) return chosen;
  const std::size_t layers = all.back().precisions.size();
  double epoch = 0;
  for (const IntervalRecord& interval : all) {
    if (interval.precisions.size() != layers || layers == 0) continue;
    if (interval.learning_rate_scales.size() != layers || !(interval.report.epoch > epoch))
      continue;
    epoch = interval.report.epoch;
    chosen.push_back(&interval);
  }
  return chosen;
}

/// A plan applies to the interval that ends at its record.
std::vector<double> interval_edges(const std::vector<const IntervalRecord*>& intervals) {
  std::vector<double> edges = {0};
  for (const IntervalRecord* interval : intervals) edges.push_back(interval->report.epoch);
  return edges;
}

std::string shade_legend(const LogShades& shades, const std::string& unknown) {
  std::string out =
      fmt::format("<p class=\"legend\"><span>{:.3g}</span><span class=\"ramp\">", shades.low());
  for (int i = 0; i < kHeatShades; ++i) out += fmt::format("<i class=\"h{}\"></i>", i);
  out += fmt::format("</span><span>{:.3g}, logarithmic</span>", shades.high());
  if (!unknown.empty())
    out += fmt::format("<span><span class=\"swatch none\"></span>{}</span>", unknown);
  return out + "</p>";
}

std::string precision_map(const ReportedRun& run) {
  const auto intervals = with_layers(run);
  if (intervals.empty()) return "";
  const std::string& first = intervals.front()->precisions;
  const bool uniform = std::all_of(intervals.begin(), intervals.end(), [&](const auto* interval) {
    return interval->precisions == std::string(first.size(), first.front());
  });
  if (uniform) return "";
  HeatMap map{.title = title_for(run, "Precision of each layer"),
              .x_label = "epoch",
              .shade_class = "c",
              .edges = interval_edges(intervals),
              .wide = true};
  std::array<bool, kPrecisions> present{};
  for (std::size_t layer = 0; layer < first.size(); ++layer) {
    HeatRow row{.name = layer_name(run, layer)};
    std::array<std::size_t, kPrecisions> counts{};
    for (const IntervalRecord* interval : intervals) {
      const auto index = static_cast<std::size_t>(*precision_of(interval->precisions[layer]));
      row.shades.push_back(static_cast<int>(index));
      ++counts[index];
    }
    for (std::size_t p = 0; p < kPrecisions; ++p) {
      if (counts[p] == 0) continue;
      present[p] = true;
      row.remark += fmt::format(
          "{}{} {:.0f} % of the time", row.remark.empty() ? "" : ", ",
          name_of(static_cast<Precision>(p)),
          100.0 * static_cast<double>(counts[p]) / static_cast<double>(intervals.size()));
    }
    map.rows.push_back(std::move(row));
  }
  std::string legend = "<p class=\"legend\">";
  for (std::size_t p = 0; p < kPrecisions; ++p)
    if (present[p])
      legend += fmt::format("<span><span class=\"swatch c{}\"></span>{}</span> ", p,
                            name_of(static_cast<Precision>(p)));
  return figure(map.title, legend + "</p>" + svg_heat_map(map), /*wide=*/true);
}

/// One row per layer, shaded by the logarithm of values[layer][column].
std::string value_map(HeatMap map, const ReportedRun& run,
                      const std::vector<std::vector<double>>& values, const std::string& unknown) {
  std::vector<double> all;
  for (const std::vector<double>& row : values) all.insert(all.end(), row.begin(), row.end());
  const LogShades shades(all);
  if (shades.empty()) return "";
  bool complete = true;
  for (std::size_t layer = 0; layer < values.size(); ++layer) {
    HeatRow row{.name = layer_name(run, layer)};
    for (const double value : values[layer]) {
      row.shades.push_back(shades.shade(value));
      complete = complete && row.shades.back() >= 0;
    }
    row.remark =
        fmt::format("first {:.3g}, last {:.3g}", values[layer].front(), values[layer].back());
    map.rows.push_back(std::move(row));
  }
  return figure(map.title, shade_legend(shades, complete ? "" : unknown) + svg_heat_map(map));
}

std::string rates_map(const ReportedRun& run) {
  const auto intervals = with_layers(run);
  if (intervals.empty()) return "";
  bool changed = false;
  std::vector<std::vector<double>> values(intervals.front()->learning_rate_scales.size());
  for (const IntervalRecord* interval : intervals)
    for (std::size_t layer = 0; layer < values.size(); ++layer) {
      values[layer].push_back(interval->learning_rate_scales[layer]);
      changed = changed || values[layer].back() != 1;
    }
  if (!changed) return "";
  return value_map({.title = title_for(run, "Learning-rate scale of each layer"),
                    .x_label = "epoch",
                    .edges = interval_edges(intervals)},
                   run, values, "0");
}

/// A per-layer quantity measured in some intervals; `measure` returns nothing for the others.
template <typename Measure>
std::string measured_map(const ReportedRun& run, const std::string& title,
                         const std::string& unknown, Measure measure) {
  const std::vector<IntervalRecord>& all = run.record.metrics.intervals;
  std::vector<std::vector<double>> values;
  HeatMap map{.title = title_for(run, title), .x_label = "epoch"};
  for (const IntervalRecord& interval : all) {
    const std::vector<double> measured = measure(interval.report);
    if (measured.empty() || (!values.empty() && measured.size() != values.size())) continue;
    if (!map.edges.empty() && !(interval.report.epoch > map.edges.back())) continue;
    values.resize(measured.size());
    for (std::size_t layer = 0; layer < values.size(); ++layer)
      values[layer].push_back(measured[layer]);
    map.edges.push_back(interval.report.epoch);
  }
  if (values.empty()) return "";
  // A value holds until the next measurement.
  const double step = map.edges.size() > 1 ? map.edges.back() - map.edges[map.edges.size() - 2] : 0;
  map.edges.push_back(std::max(all.back().report.epoch, map.edges.back() + std::max(step, 1e-3)));
  return value_map(std::move(map), run, values, unknown);
}

std::string curvature_map(const ReportedRun& run) {
  const CurvatureReport* last = nullptr;
  for (const IntervalRecord& interval : run.record.metrics.intervals)
    if (interval.report.curvature && !interval.report.curvature->layers.empty())
      last = &*interval.report.curvature;
  if (last == nullptr) return "";
  return measured_map(
      run,
      fmt::format("Largest eigenvalue of each layer ({})",
                  last->mode == CurvatureMode::Hessian ? "Hessian" : "empirical Fisher"),
      "none or ≤ 0", [](const StepReport& report) {
        std::vector<double> largest;
        if (report.curvature)
          for (const LayerCurvature& layer : report.curvature->layers)
            largest.push_back(layer.eigenvalues.empty() ? std::nan("") : layer.largest());
        return largest;
      });
}

std::string noise_map(const ReportedRun& run) {
  return measured_map(run, "Compression noise relative to each layer's squared gradient", "none",
                      [](const StepReport& report) {
                        return report.compression_noise ? report.compression_noise->shares()
                                                        : std::vector<double>();
                      });
}

}  // namespace

std::string layers_section(std::span<const ReportedRun> runs) {
  std::string figures;
  for (const ReportedRun& run : runs)
    figures += precision_map(run) + curvature_map(run) + noise_map(run) + rates_map(run);
  return figures.empty() ? "" : "<section class=\"plots\">" + figures + "</section>\n";
}

}  // namespace triaccel
