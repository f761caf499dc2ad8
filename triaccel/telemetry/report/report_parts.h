#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/telemetry/records/run_record.h"

namespace triaccel {

/// One run as the report shows it.
struct ReportedRun {
  const RunRecord& record;
  RunSummary outcome = {};
  std::string label = {};  // short and different from that of every other run; "" when alone
  std::size_t color = 0;
};

/// Method names where they differ, run names otherwise.
std::vector<ReportedRun> reported_runs(std::span<const RunRecord> runs);

/// The figures of one run as tiles, or of several as a table.
std::string summary_section(std::span<const ReportedRun> runs);

/// A drawing with its title; a wide one takes the whole width of the page.
std::string figure(std::string_view title, const std::string& content, bool wide = false);

/// Loss, accuracy, memory, saved bytes, speed, batch, learning rate, score and precisions over the
/// run.
std::string plots_section(std::span<const ReportedRun> runs);

/// What the peak of each run's memory was made of.
std::string purposes_section(std::span<const ReportedRun> runs);

/// Share of layers in each precision over a run; "" beside other runs when it never changes.
std::string precision_figure(const ReportedRun& run);

/// The efficiency score of each epoch and whether it rises; "" when no run has two epochs.
std::string score_figure(std::span<const ReportedRun> runs);

/// Precision, curvature, noise of codes and learning-rate factor of each layer over time, for the
/// runs in which they differ, change or were measured; "" when none is.
std::string layers_section(std::span<const ReportedRun> runs);

/// Notices, what was run on what, and configuration.
std::string details_section(std::span<const ReportedRun> runs);

/// A whole page around `body`; `facts` is HTML for the line under the title.
std::string html_page(std::string_view title, std::string_view facts, std::string_view body);

/// Content of the style and script elements. The hash is what the page's content security policy
/// lets run; nothing else in the file can.
std::string_view report_style();
std::string_view report_script();
std::string_view report_script_sha256();

}  // namespace triaccel
