#include "triaccel/telemetry/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"

namespace triaccel {
namespace {

/// Model, data, method and device, where all runs share them: the line below the title.
std::string shared_facts(std::span<const ReportedRun> runs) {
  std::string line;
  const auto add = [&](std::string RunSummary::*field) {
    if (runs.empty()) return;
    const std::string& value = runs.front().outcome.*field;
    const bool shared = std::all_of(runs.begin(), runs.end(), [&](const ReportedRun& run) {
      return run.outcome.*field == value;
    });
    if (shared && !value.empty()) line += (line.empty() ? "" : " · ") + html_escaped(value);
  };
  add(&RunSummary::model);
  add(&RunSummary::data);
  add(&RunSummary::method);
  add(&RunSummary::device);
  return line;
}

}  // namespace

std::vector<ReportedRun> reported_runs(std::span<const RunRecord> runs) {
  std::vector<ReportedRun> reported;
  for (const RunRecord& run : runs) reported.push_back({run, outcome_of(run), "", reported.size()});
  if (reported.size() < 2) return reported;
  const auto all_differ = [&](const auto& label_of) {
    std::vector<std::string> labels;
    for (const ReportedRun& run : reported) labels.push_back(label_of(run));
    std::sort(labels.begin(), labels.end());
    return std::adjacent_find(labels.begin(), labels.end()) == labels.end();
  };
  const auto method = [](const ReportedRun& run) { return run.outcome.method; };
  const auto name = [](const ReportedRun& run) { return run.record.name; };
  const bool by_method = all_differ(method);
  const bool by_name = all_differ(name);
  for (ReportedRun& run : reported) {
    run.label = by_method ? method(run) : name(run);
    if (!by_method && !by_name) run.label += fmt::format(" #{}", run.color + 1);
  }
  return reported;
}

std::string html_page(std::string_view title, std::string_view facts, std::string_view body) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
  out += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'sha256-{}'\"/>\n",
      report_script_sha256());
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  out += "<meta name=\"color-scheme\" content=\"light dark\"/>\n";
  out += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
                     html_escaped(title), report_style());
  out += fmt::format("<header><h1>{}</h1><p class=\"facts\">{}</p></header>\n", html_escaped(title),
                     facts);
  out += body;
  out += fmt::format("</main>\n<script>{}</script>\n</body>\n</html>\n", report_script());
  return out;
}

std::string html_report(std::span<const RunRecord> runs, std::string_view title) {
  const std::vector<ReportedRun> reported = reported_runs(runs);
  return html_page(title, shared_facts(reported),
                   summary_section(reported) + plots_section(reported) + layers_section(reported) +
                       purposes_section(reported) + details_section(reported));
}

void write_html_report(const std::filesystem::path& path, std::span<const RunRecord> runs,
                       std::string_view title) {
  write_atomically(path, html_report(runs, title));
}

}  // namespace triaccel
