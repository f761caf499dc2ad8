#include "triaccel/telemetry/report/html_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "tests/telemetry/report/html_faults.h"
#include "tests/telemetry/sample_run.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_heat_map.h"

namespace triaccel {
namespace {

RunRecord sample_record(std::int64_t intervals) {
  RunRecord run{.name = "runs/demo", .summary = sample_summary(10 * intervals)};
  run.metrics.info = sample_info();
  for (std::int64_t i = 1; i <= intervals; ++i) {
    run.metrics.intervals.push_back(interval_record(sample_report(10 * i), sample_plan()));
    if (i % 10 == 0) run.metrics.evaluations.push_back(sample_evaluation(10 * i));
  }
  run.metrics.notices = {{10, "bf16 is emulated here"}};
  run.config = "[train]\nmethod = \"amp\"\n";
  return run;
}

/// A run whose control loop did something: plans change, a probe ran, epochs get better.
RunRecord controlled_record(std::int64_t epochs, std::size_t layers = 2) {
  RunRecord run{.name = "runs/controlled", .summary = sample_summary(100 * epochs)};
  run.metrics.info = sample_info();
  run.metrics.info.layer_names.resize(layers, "layer");
  StepPlan plan = controlled_plan();
  plan.layers.resize(layers, plan.layers[1]);
  for (std::int64_t step = 10; step <= 100 * epochs; step += 10) {
    StepReport report = controlled_report(step);
    report.curvature->layers.resize(layers);
    plan.layers[0].compute = step % 20 == 0 ? Precision::Fp32 : Precision::Fp16;
    run.metrics.intervals.push_back(interval_record(report, plan));
    if (step % 100 != 0) continue;
    run.metrics.evaluations.push_back(sample_evaluation(step));
    run.metrics.evaluations.back().accuracy = 0.5 + 0.01 * static_cast<double>(step) / 100;
  }
  return run;
}

std::string report_of(const RunRecord& run) { return html_report(std::span(&run, 1), "a title"); }

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HtmlReport, ShowsSavedBytesOnlyWhereActivationsAreCompressed) {
  RunRecord run = sample_record(4);
  EXPECT_EQ(report_of(run).find("Activations saved for backward"), std::string::npos);
  for (IntervalRecord& interval : run.metrics.intervals) {
    SavedCounts saved{.fp32_bytes = 102 << 20};
    saved.held_bytes[static_cast<std::size_t>(SavedCodec::Frequency)] = 10 << 20;
    interval.report.saved = saved;
  }
  run.metrics.intervals.front().report.saved.reset();  // before the first profile
  const std::string page = report_of(run);
  EXPECT_EQ(first_fault(page), "");
  EXPECT_NE(page.find("Activations saved for backward"), std::string::npos);
  EXPECT_NE(page.find("10.2x smaller"), std::string::npos);
}

TEST(HtmlReport, DrawsCompressionNoiseWhereItWasMeasured) {
  RunRecord run = sample_record(4);
  const std::string title = "Compression noise relative to each layer";
  EXPECT_EQ(report_of(run).find(title), std::string::npos);
  run.metrics.intervals[1].report.compression_noise =
      CompressionNoise{.layers = {{0.5, 2}, {0, 0}}};
  run.metrics.intervals[3].report.compression_noise =
      CompressionNoise{.layers = {{0.125, 2}, {0.5, 1}}};
  const std::string page = report_of(run);
  EXPECT_EQ(first_fault(page), "");
  EXPECT_NE(page.find(title), std::string::npos);
  EXPECT_NE(page.find("first 0.25, last 0.0625"), std::string::npos);
}

TEST(HtmlReport, IsWellFormedForAnyNumberOfIntervals) {
  for (const std::int64_t intervals : {0, 1, 2, 50, 3000})
    EXPECT_EQ(first_fault(report_of(sample_record(intervals))), "") << intervals;
  EXPECT_EQ(first_fault(report_of(RunRecord{})), "");
  EXPECT_EQ(first_fault(html_report({}, "nothing")), "");
}

TEST(HtmlReport, ComparesRunsUnderNamesThatDiffer) {
  std::vector<RunRecord> runs(3, sample_record(20));
  const std::string html = html_report(runs, "three");
  EXPECT_EQ(first_fault(html), "");
  for (const char* label : {"runs/demo #1", "runs/demo #2", "runs/demo #3"})
    EXPECT_NE(html.find(label), std::string::npos) << label;
  runs[1].summary->method = "fp32";
  runs[2].summary->method = "tri-accel";
  EXPECT_NE(html_report(runs, "three").find("</span>tri-accel</th>"), std::string::npos);
}

TEST(HtmlReport, ShowsTheControlLoopOfARunThatHasOne) {
  const std::string html = report_of(controlled_record(4));
  EXPECT_EQ(first_fault(html), "");
  for (const char* part :
       {"Precision of each layer", "Largest eigenvalue of each layer (Hessian)",
        "Learning-rate scale of each layer", "Learning-rate scale of the batch size",
        "Efficiency score of each epoch", "The score rises:", "fp16 50 % of the time",
        "curvature probes", "faint: micro-batch", "reserved"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  const std::string plain = report_of(sample_record(5));
  for (const char* part : {"Largest eigenvalue", "Learning-rate scale", "Efficiency score"})
    EXPECT_EQ(plain.find(part), std::string::npos) << part;
}

TEST(HtmlReport, TellsHowMuchOfTheDataIsInHostMemory) {
  RunRecord run = sample_record(5);
  EXPECT_EQ(report_of(run).find("data set in host memory"), std::string::npos);
  run.summary->host_data_bytes = 123 << 20;
  run.summary = summary_from_json(to_json(*run.summary), "test");
  const std::string html = report_of(run);
  EXPECT_NE(html.find("data set in host memory"), std::string::npos);
  EXPECT_NE(html.find("123 MiB"), std::string::npos);
}

TEST(HtmlReport, TellsHowMuchHostMemoryActivationsTake) {
  RunRecord run = sample_record(5);
  EXPECT_EQ(report_of(run).find("host memory for activations"), std::string::npos);
  run.summary->host_activation_bytes = 77 << 20;
  run.summary = summary_from_json(to_json(*run.summary), "test");
  const std::string html = report_of(run);
  EXPECT_NE(html.find("host memory for activations"), std::string::npos);
  EXPECT_NE(html.find("77 MiB"), std::string::npos);
}

TEST(HtmlReport, TellsHowMuchWorkWasReplayed) {
  RunRecord run = sample_record(5);
  EXPECT_NE(report_of(run).find("2,000 replays, 5 captures in 0.8 s, 99.75 % cache hits"),
            std::string::npos);
  run.summary->graph_replays = run.summary->graph_captures = 0;
  EXPECT_EQ(report_of(run).find("captures"), std::string::npos);
}

TEST(HtmlReport, DrawsARowForEachOfManyLayers) {
  const std::string html = report_of(controlled_record(3, 82));
  EXPECT_EQ(first_fault(html), "");
  EXPECT_EQ(occurrences(html, "<g><title>"), std::size_t{3 * 82});
}

TEST(HtmlReport, TakesCurvatureThatIsNotANumber) {
  RunRecord run = controlled_record(2);
  for (IntervalRecord& interval : run.metrics.intervals)
    for (LayerCurvature& layer : interval.report.curvature->layers)
      layer.eigenvalues = {std::nan("")};
  EXPECT_EQ(report_of(run).find("Largest eigenvalue"), std::string::npos);
  run.metrics.intervals[3].report.curvature->layers[0].eigenvalues = {1e308};
  run.metrics.intervals[4].report.curvature->layers[0].eigenvalues = {-1e308};
  run.metrics.intervals[5].report.curvature->layers[1].eigenvalues = {1e-320};
  run.metrics.intervals[6].report.epoch = std::nan("");
  run.metrics.intervals[7].precisions = "f";
  EXPECT_EQ(first_fault(report_of(run)), "");
}

TEST(LogShades, SpreadOverTheDecadesThatOccur) {
  const LogShades shades({1e-3, 1, 10, -5, std::nan("")});
  EXPECT_EQ(shades.shade(10), kHeatShades - 1);
  EXPECT_EQ(shades.shade(1e-3), 0);
  EXPECT_EQ(shades.shade(0.1), kHeatShades / 2);
  EXPECT_EQ(shades.shade(-5), -1);
  EXPECT_TRUE(LogShades({0, -1}).empty());
  EXPECT_EQ(LogShades({2, 2}).shade(2), kHeatShades - 1);
}

TEST(EpochScores, DivideByTheTimeOfAnEpochAndItsMemoryWithoutTheDataSet) {
  const RunRecord run = controlled_record(3);
  const std::vector<EpochScore> scores = epoch_scores(run);
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_NEAR(scores[1].seconds, 1.0, 1e-9);
  const double gigabytes = static_cast<double>((220 - 47) << 20) / 1e9;
  EXPECT_NEAR(scores[1].score, 52 / gigabytes, 1e-9);
}

TEST(EpochScores, RiseOnlyWhenTheLaterHalfDoes) {
  const auto sequence = [](std::initializer_list<double> values) {
    std::vector<EpochScore> scores;
    for (const double value : values)
      scores.push_back({.epoch = static_cast<double>(scores.size() + 1), .score = value});
    return scores;
  };
  EXPECT_TRUE(rises(sequence({1, 2, 3, 4})));
  EXPECT_FALSE(rises(sequence({4, 3, 2, 1})));
  EXPECT_FALSE(rises(sequence({2, 9, 9, 1, 1, 3}))) << "one good last epoch";
  EXPECT_FALSE(rises(sequence({2})));
  EXPECT_EQ(score_sentence(sequence({4, 3})).rfind("does not rise: 4 after epoch 1, 3 after", 0),
            0u);
  EXPECT_EQ(score_sentence({}), "");
}

TEST(HtmlReport, LoadsNothingFromElsewhere) {
  const std::string html = report_of(controlled_record(5));
  for (const char* part : {"http://", "https://", " src=", "@import", "url(", "<link", "<iframe"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(HtmlReport, LetsOnlyItsOwnScriptRun) {
  const std::string command = "printf %s \"$SCRIPT\" | openssl dgst -sha256 -binary | base64 -w0";
  ASSERT_EQ(setenv("SCRIPT", std::string(report_script()).c_str(), 1), 0);
  // The shell strips no trailing newline from a variable, so the bytes are those of the page.
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char hash[128] = {};
  const std::size_t size = fread(hash, 1, sizeof hash - 1, pipe);
  if (pclose(pipe) != 0 || size != 44) GTEST_SKIP() << "openssl and base64 are needed here";
  EXPECT_EQ(report_script_sha256(), std::string_view(hash, size));
}

TEST(HtmlReport, EscapesEveryTextItIsGiven) {
  const std::string evil = "<script>alert(\"1\")</script>'&\x01";
  RunRecord run = sample_record(10);
  run.name = run.config = evil;
  run.metrics.notices = {{1, evil}};
  run.metrics.evaluations[0].split = evil;
  RunSummary& s = *run.summary;
  run.metrics.info.layer_names = {evil, evil};
  for (IntervalRecord& interval : run.metrics.intervals) interval.learning_rate_scales[0] = 0.5f;
  s.status = s.method = s.model = s.stem = s.data = s.device = s.commit = evil;
  std::vector<RunRecord> runs = {run, run};
  const std::string clean = html_report(std::vector{sample_record(10), sample_record(10)}, "t");
  const std::string html = html_report(runs, evil);
  EXPECT_EQ(first_fault(html), "");
  EXPECT_EQ(occurrences(html, "<script"), occurrences(clean, "<script"));
  EXPECT_EQ(html.find('\x01'), std::string::npos);
}

TEST(HtmlReport, DrawsNoCoordinateThatIsNotANumber) {
  RunRecord run = sample_record(30);
  const double infinity = std::numeric_limits<double>::infinity();
  run.metrics.intervals[3].report.loss = std::nan("");
  run.metrics.intervals[7].report.loss = infinity;
  run.metrics.intervals[9].report.loss = 1e308;
  run.metrics.intervals[9].report.epoch = std::nan("");
  run.metrics.intervals[12].report.learning_rate = -infinity;
  run.metrics.evaluations[0].accuracy = std::nan("");
  run.summary->accuracy = infinity;
  run.summary->seconds = std::nan("");
  const std::string html = report_of(run);
  EXPECT_EQ(first_fault(html), "");
  const std::string drawn =
      html.substr(html.find("<svg"), html.rfind("</svg>") - html.find("<svg"));
  for (const char* part : {"nan", "inf\"", "inf "})
    EXPECT_EQ(drawn.find(part), std::string::npos) << part;
}

TEST(HtmlReport, StaysSmallForALongRun) {
  RunRecord run = sample_record(20000);
  for (std::size_t i = 0; i < 1000; ++i) run.metrics.notices.push_back({1, "the same again"});
  EXPECT_LT(report_of(run).size(), std::size_t{400000});
}

TEST(HtmlReport, IsReadFromARunDirectory) {
  ScratchDirectory scratch;
  const RunRecord empty = read_run_record(scratch.path());
  EXPECT_EQ(empty.name, scratch.path().filename().string());
  EXPECT_EQ(outcome_of(empty).status, "unfinished");
  std::ofstream(scratch.path() / "config.toml") << "[train]\n";
  EXPECT_EQ(read_run_record(scratch.path() / "").config, "[train]\n");
  write_html_report(scratch.path() / "report.html", std::span(&empty, 1), "t");
  EXPECT_EQ(first_fault(file_text(scratch.path() / "report.html")), "");
}

TEST(OutcomeOf, TakesTheLastMeasurementsOfARunWithoutSummary) {
  RunRecord run = sample_record(20);
  run.summary.reset();
  const RunSummary outcome = outcome_of(run);
  EXPECT_EQ(outcome.accuracy, 87.5);
  EXPECT_EQ(outcome.steps, 200);
  EXPECT_EQ(outcome.peak_bytes, 212 << 20);
  EXPECT_NEAR(outcome.seconds, 2.0, 1e-9);
}

TEST(OutcomeOf, KnowsWhatCompressionDidInARunWithoutSummary) {
  RunRecord run = sample_record(3);
  run.summary.reset();
  run.metrics.intervals[0].report.compression_noise = CompressionNoise{
      .compression_variance = 1, .batch_variance = 8, .layers = {{0.5, 2}, {0.5, 1}}};
  const RunSummary outcome = outcome_of(run);
  EXPECT_EQ(outcome.compression_noise, 0.125);
  EXPECT_EQ(outcome.compression_noise_by_layer, (std::vector<double>{0.25, 0.5}));
}

TEST(OutcomeOf, ClaimsNoAccuracyThatWasNeverMeasured) {
  RunRecord run = sample_record(1);
  run.summary.reset();
  EXPECT_TRUE(std::isnan(outcome_of(run).accuracy));
  EXPECT_EQ(report_of(run).find("0.00 %"), std::string::npos);
}

TEST(OutcomeOf, TakesAccuracyFromTheTestSetAlone) {
  RunRecord run = sample_record(20);
  run.summary.reset();
  for (EvaluationReport& evaluation : run.metrics.evaluations) evaluation.split = "validation";
  EXPECT_TRUE(std::isnan(outcome_of(run).accuracy));
  EXPECT_EQ(outcome_of(run).best_accuracy, 87.5);
}

TEST(HtmlEscaped, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(html_escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(html_escaped("caf\xC3\xA9"), "caf\xC3\xA9");
  for (const char* bad : {"\xFF", "\xC0\xAF", "\xE9", "\xED\xA0\x80", "\xF5\x80\x80\x80"})
    EXPECT_NE(html_escaped(bad).find("\xEF\xBF\xBD"), std::string::npos) << bad;
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("resnet", 6), "resnet");
  EXPECT_EQ(shortened("resnet", 4), "res\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xC3\xA9\xC3\xA9\xC3\xA9", 2), "\xC3\xA9\xE2\x80\xA6");
}

}  // namespace
}  // namespace triaccel
