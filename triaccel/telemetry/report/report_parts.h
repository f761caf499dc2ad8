#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/telemetry/records/run_record.h"

namespace triaccel {

/// One run in the report.
struct ReportedRun {
  const RunRecord& record;
  RunSummary outcome = {};
  std::string label = {};  // short and unique; "" for a single run
  std::size_t color = 0;
};

/// Labels are method names if these differ, run names otherwise.
std::vector<ReportedRun> reported_runs(std::span<const RunRecord> runs);

/// The results of one run as tiles, or of several as a table.
std::string summary_section(std::span<const ReportedRun> runs);

/// A drawing with its title; a wide one spans the page.
std::string figure(std::string_view title, const std::string& content, bool wide = false);

/// Loss, accuracy, memory, saved bytes, speed, batch, learning rate, score and precisions over the
/// run.
std::string plots_section(std::span<const ReportedRun> runs);

/// Breakdown of each run's peak memory.
std::string purposes_section(std::span<const ReportedRun> runs);

/// Share of layers in each precision over a run; "" in a comparison if it never changes.
std::string precision_figure(const ReportedRun& run);

/// The efficiency score of each epoch and whether it rises; "" if no run has two epochs.
std::string score_figure(std::span<const ReportedRun> runs);

/// Precision, curvature, compression noise and learning-rate scale of each layer over time, for
/// runs in which they vary or were measured; "" if none.
std::string layers_section(std::span<const ReportedRun> runs);

/// Notices, details of the run, and configuration.
std::string details_section(std::span<const ReportedRun> runs);

/// A complete page around `body`; `facts` is HTML for the line below the title.
std::string html_page(std::string_view title, std::string_view facts, std::string_view body);

/// Content of the style and script elements. The page's content security policy allows only the
/// script with this hash.
std::string_view report_style();
std::string_view report_script();
std::string_view report_script_sha256();

}  // namespace triaccel
