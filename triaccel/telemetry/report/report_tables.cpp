#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_plot.h"

namespace triaccel {
namespace {

constexpr std::size_t kMostNotices = 100;

std::string grouped(double value) {
  if (!std::isfinite(value)) return "–";
  const std::string digits = fmt::format("{:.0f}", value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool starts_group = (digits.size() - i) % 3 == 0;
    if (starts_group && !out.empty() && out.back() != '-') out += ',';
    out += digits[i];
  }
  return out;
}

std::string fixed(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "–";
}

std::string percent(double value) {
  return std::isfinite(value) ? fmt::format("{:.2f} %", value) : "–";
}

std::string time_text(double seconds) {
  return seconds < 120 ? fixed(seconds, 1) + " s" : duration_text(seconds);
}

std::string budget_share(const RunSummary& run) {
  if (run.budget_bytes <= 0) return "no budget";
  const double share =
      100 * static_cast<double>(run.peak_bytes) / static_cast<double>(run.budget_bytes);
  return fmt::format("{:.0f} % of {}", share, byte_text(run.budget_bytes));
}

std::string tile(std::string_view name, const std::string& value, const std::string& remark) {
  return fmt::format(
      "<div class=\"tile\"><div class=\"name-of\">{}</div><div class=\"value\">{}</div>"
      "<div class=\"remark\">{}</div></div>",
      html_escaped(name), html_escaped(value), html_escaped(remark));
}

std::string tiles(const RunSummary& run) {
  return "<section class=\"tiles\">" +
         tile("Accuracy", percent(run.accuracy), "best " + percent(run.best_accuracy)) +
         tile("Loss", fixed(run.loss, 4), "on the evaluation set") +
         tile("Training time", time_text(run.seconds),
              fmt::format("{:.3g} epochs, {} steps", run.epochs,
                          grouped(static_cast<double>(run.steps)))) +
         tile("Throughput", grouped(samples_per_second(run)), "samples/s") +
         tile("Peak memory", byte_text(run.peak_bytes), budget_share(run)) +
         tile("Final batch", grouped(static_cast<double>(run.batch_final)),
              run.batch_largest > run.batch_final
                  ? fmt::format("at most {}", grouped(static_cast<double>(run.batch_largest)))
                  : "samples per step") +
         (run.score > 0 ? tile("Score", fixed(run.score, 2), "accuracy % / (s × GB)") : "") +
         "</section>\n";
}

/// A column of the comparison and, where one value is best, its ranking.
struct Column {
  const char* name;
  std::function<std::string(const RunSummary&)> text;
  std::function<double(const RunSummary&)> rank = {};  // higher is better
};

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {"accuracy", [](const RunSummary& r) { return percent(r.accuracy); },
       [](const RunSummary& r) { return r.accuracy; }},
      {"loss", [](const RunSummary& r) { return fixed(r.loss, 4); },
       [](const RunSummary& r) { return -r.loss; }},
      {"time", [](const RunSummary& r) { return time_text(r.seconds); },
       [](const RunSummary& r) { return -r.seconds; }},
      {"samples/s", [](const RunSummary& r) { return grouped(samples_per_second(r)); },
       [](const RunSummary& r) { return samples_per_second(r); }},
      {"peak memory", [](const RunSummary& r) { return byte_text(r.peak_bytes); },
       [](const RunSummary& r) { return -static_cast<double>(r.peak_bytes); }},
      {"of budget", [](const RunSummary& r) { return budget_share(r); }},
      {"score", [](const RunSummary& r) { return r.score > 0 ? fixed(r.score, 2) : "–"; },
       [](const RunSummary& r) { return r.score > 0 ? r.score : std::nan(""); }},
      {"final batch",
       [](const RunSummary& r) { return grouped(static_cast<double>(r.batch_final)); }},
      {"status", [](const RunSummary& r) { return r.status; }}};
  return all;
}

/// The highest rank; NaN if all runs are equal.
double best_rank(std::span<const ReportedRun> runs, const Column& column) {
  double best = std::nan("");
  if (!column.rank) return best;
  bool differ = false;
  for (const ReportedRun& run : runs) {
    const double rank = column.rank(run.outcome);
    if (!std::isfinite(rank)) continue;
    differ = differ || (!std::isnan(best) && rank != best);
    best = std::isnan(best) ? rank : std::max(best, rank);
  }
  return differ ? best : std::nan("");
}

std::string comparison(std::span<const ReportedRun> runs) {
  std::string out = "<section class=\"scroll\"><table class=\"runs\"><thead><tr><th>run</th>";
  for (const Column& column : columns()) out += fmt::format("<th>{}</th>", column.name);
  out += "</tr></thead><tbody>";
  for (const ReportedRun& run : runs) {
    out += fmt::format("<tr><th><span class=\"swatch c{}\"></span>{}</th>", run.color % kPlotColors,
                       html_escaped(run.label));
    for (const Column& column : columns()) {
      const bool best = column.rank && column.rank(run.outcome) == best_rank(runs, column);
      out += fmt::format("<td{}>{}</td>", best ? " class=\"best\"" : "",
                         html_escaped(column.text(run.outcome)));
    }
    out += "</tr>";
  }
  return out + "</tbody></table></section>\n";
}

/// "fp32 in 6 layers, bf16 in 15 layers", from the last interval.
std::string last_precisions(const ReportedRun& run) {
  if (run.record.metrics.intervals.empty()) return "–";
  std::string out;
  const auto& counts = run.record.metrics.intervals.back().layers_by_precision;
  for (std::size_t p = 0; p < kPrecisions; ++p)
    if (counts[p] > 0)
      out += fmt::format("{}{} in {} layers", out.empty() ? "" : ", ",
                         name_of(static_cast<Precision>(p)), counts[p]);
  return out.empty() ? "–" : out;
}

std::string facts_table(const ReportedRun& run) {
  const RunSummary& o = run.outcome;
  const auto count = [](std::int64_t value) { return grouped(static_cast<double>(value)); };
  std::vector<std::pair<const char*, std::string>> rows = {
      {"status", o.status},
      {"model",
       fmt::format("{}{}, {} parameters", o.model,
                   o.stem.empty() ? "" : fmt::format(" ({} stem)", o.stem), count(o.parameters))},
      {"data", o.data},
      {"method", o.method},
      {"device", o.device},
      {"seed", fmt::format("{}", o.seed)},
      {"commit", o.commit},
      {"final precision", last_precisions(run)},
      {"samples", fmt::format("{} in {} steps", count(o.samples), count(o.steps))},
      {"time per epoch", time_text(o.seconds_per_epoch)},
      {"peak reserved memory", byte_text(o.peak_reserved_bytes)},
      {"resident data set", byte_text(o.data_bytes)},
      {"skipped steps", count(o.skipped_steps)},
      {"steps retried after out of memory", count(o.memory_retries)},
  };
  if (o.predicted_bytes > 0)
    rows.emplace_back("predicted peak of the first plan", byte_text(o.predicted_bytes));
  if (o.host_data_bytes > 0)
    rows.emplace_back("data set in host memory", byte_text(o.host_data_bytes));
  if (o.host_state_bytes > 0)
    rows.emplace_back("optimizer state in host memory", byte_text(o.host_state_bytes));
  if (o.host_activation_bytes > 0)
    rows.emplace_back("host memory for activations", byte_text(o.host_activation_bytes));
  if (o.rollbacks > 0) rows.emplace_back("rollbacks", count(o.rollbacks));
  if (o.plan_changes > 0) rows.emplace_back("plan changes", count(o.plan_changes));
  if (o.curvature_probes > 0) rows.emplace_back("curvature probes", count(o.curvature_probes));
  if (o.graph_replays > 0)
    rows.emplace_back(
        "CUDA graphs",
        fmt::format("{} replays, {} captures in {}, {:.2f} % cache hits", count(o.graph_replays),
                    count(o.graph_captures), time_text(o.graph_capture_seconds),
                    100 * (1 - static_cast<double>(o.graph_captures) /
                                   static_cast<double>(o.graph_replays))));
  if (o.control_seconds > 0)
    rows.emplace_back("control overhead",
                      fmt::format("{}, {:.2f} % of training time", time_text(o.control_seconds),
                                  100 * o.control_seconds / o.seconds));
  std::string out = "<table class=\"facts\"><tbody>";
  for (const auto& [name, value] : rows)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>", name, html_escaped(value));
  return out + "</tbody></table>";
}

std::string classes_table(const RunSummary& run) {
  if (run.class_names.empty() || run.class_names.size() != run.class_accuracies.size()) return "";
  std::string out = "<h3>Test accuracy per class</h3><table class=\"facts\"><tbody>";
  for (std::size_t i = 0; i < run.class_names.size(); ++i)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>", html_escaped(run.class_names[i]),
                       percent(run.class_accuracies[i]));
  return out + "</tbody></table>";
}

std::string notices(const ReportedRun& run) {
  const std::vector<NoticeRecord>& all = run.record.metrics.notices;
  if (all.empty()) return "";
  std::string out = "<h3>Notices</h3><ul class=\"notices\">";
  for (std::size_t i = 0; i < std::min(all.size(), kMostNotices); ++i)
    out += fmt::format("<li><span class=\"step\">step {}</span> {}</li>",
                       grouped(static_cast<double>(all[i].step)), html_escaped(all[i].message));
  if (all.size() > kMostNotices)
    out += fmt::format("<li>and {} more in metrics.jsonl</li>", all.size() - kMostNotices);
  return out + "</ul>";
}

}  // namespace

std::string summary_section(std::span<const ReportedRun> runs) {
  if (runs.empty()) return "<p>No run to report.</p>\n";
  return runs.size() == 1 ? tiles(runs.front().outcome) : comparison(runs);
}

std::string details_section(std::span<const ReportedRun> runs) {
  std::string out;
  for (const ReportedRun& run : runs) {
    out += "<section class=\"details\"><h2>";
    if (run.label.empty())
      out += "Details";
    else
      out += fmt::format("<span class=\"swatch c{}\"></span>{}", run.color % kPlotColors,
                         html_escaped(run.label));
    out += "</h2>" + facts_table(run) + classes_table(run.outcome) + notices(run);
    if (!run.record.config.empty())
      out += fmt::format("<details{}><summary>Configuration</summary><pre>{}</pre></details>",
                         runs.size() == 1 ? " open=\"open\"" : "", html_escaped(run.record.config));
    out += "</section>\n";
  }
  return out;
}

}  // namespace triaccel
