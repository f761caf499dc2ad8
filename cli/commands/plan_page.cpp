#include "cli/commands/plan_page.h"

#include <fmt/core.h>

#include <array>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_plot.h"

namespace triaccel::cli {
namespace {

double mib(const MemoryPlan& plan) { return static_cast<double>(plan.bytes()) / 0x1p20; }

std::string plot_of(const std::vector<PlanPoint>& sweep) {
  LinePlot plot{.title = "samples per second by memory",
                .x_label = "memory, MiB",
                .unit = "samples/s",
                .from_zero = true};
  PlotSeries best{.label = "best plan", .color = 6, .faint = true, .named = false};
  for (const PlanPoint& point : sweep)
    best.points.push_back({mib(point.plan), point.plan.samples_per_second});
  plot.series.push_back(std::move(best));
  constexpr std::array kinds = {Lossiness::None, Lossiness::Slight, Lossiness::Marked};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    PlotSeries series{.label = name_of(kinds[i]), .color = i, .markers = true};
    for (const PlanPoint& point : sweep)
      if (point.plan.lossiness == kinds[i])
        series.points.push_back({mib(point.plan), point.plan.samples_per_second});
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return svg_line_plot(plot);
}

std::string table_of(const std::vector<PlanPoint>& sweep) {
  std::string table =
      "<table><thead><tr><th>memory</th><th>samples/s</th><th>losses</th><th>options</th></tr>"
      "</thead><tbody>";
  for (const PlanPoint& point : sweep)
    table += fmt::format("<tr><td>{}</td><td>{:.0f}</td><td>{}</td><td><code>{}</code></td></tr>",
                         byte_text(point.plan.bytes()), point.plan.samples_per_second,
                         name_of(point.plan.lossiness), html_escaped(point.options));
  return table + "</tbody></table>";
}

}  // namespace

std::string plan_page(const std::vector<PlanPoint>& sweep, const std::string& facts) {
  return html_page(
      "Speed by memory budget", html_escaped(facts),
      fmt::format("<section><figure>{}</figure>{}</section>", plot_of(sweep), table_of(sweep)));
}

}  // namespace triaccel::cli
