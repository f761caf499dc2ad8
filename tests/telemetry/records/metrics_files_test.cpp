#include "triaccel/telemetry/records/metrics_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/metrics_record.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

void train(MetricsFiles& files, std::int64_t first_step, std::int64_t last_step) {
  RunInfo info = sample_info();
  info.first_step = first_step;
  files.start(info);
  for (std::int64_t step = first_step + 10; step <= last_step; step += 10) {
    files.interval(sample_report(step), sample_plan());
    if (step % 50 == 0) files.evaluation(sample_evaluation(step));
  }
}

void write_run(const fs::path& directory, std::int64_t steps) {
  MetricsFiles files(directory, {});
  train(files, 0, steps);
  files.finish(sample_summary(steps));
}

void append_to(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

std::vector<std::vector<std::string>> csv_of(const fs::path& path) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(file_text(path));
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back(1);
    for (const char c : line) {
      if (c == ',')
        rows.back().emplace_back();
      else
        rows.back().back() += c;
    }
  }
  return rows;
}

TEST(MetricsFiles, ReadBackWhatWasWritten) {
  ScratchDirectory scratch;
  {
    MetricsFiles files(scratch.path(), {});
    files.start(sample_info());
    files.interval(sample_report(10), sample_plan());
    files.evaluation(sample_evaluation(10));
    files.notice("line one\nline \"two\"");
    files.finish(sample_summary(10));
  }
  const RunMetrics read = read_metrics(scratch.path() / kMetricsJsonl);
  EXPECT_EQ(read.info.seed, sample_info().seed);
  EXPECT_EQ(read.info.layer_names, sample_info().layer_names);
  ASSERT_EQ(read.intervals.size(), 1u);
  const IntervalRecord& interval = read.intervals[0];
  EXPECT_EQ(interval.report.loss, sample_report(10).loss);
  EXPECT_EQ(interval.report.memory, sample_report(10).memory);
  EXPECT_EQ(interval.report.layers, sample_report(10).layers);
  EXPECT_EQ(interval.batch_size, 96);
  EXPECT_EQ(interval.micro_batch_size, 48);
  EXPECT_EQ(interval.layers_by_precision, (std::array<std::int64_t, 4>{1, 1, 0, 0}));
  EXPECT_EQ(interval.plan_hash, plan_hash(sample_plan()));
  ASSERT_EQ(read.evaluations.size(), 1u);
  EXPECT_EQ(read.evaluations[0].accuracy, 0.875);
  ASSERT_EQ(read.notices.size(), 1u);
  EXPECT_EQ(read.notices[0].message, "line one\nline \"two\"");
  EXPECT_EQ(read.notices[0].step, 10);
  ASSERT_TRUE(read.summary.has_value());
  EXPECT_EQ(read.summary->parameters, 11173962);
  EXPECT_FALSE(read.torn);
}

TEST(MetricsFiles, ReadBackWhatTheControlLoopMeasuredAndDecided) {
  const IntervalRecord written = interval_record(controlled_report(10), controlled_plan());
  const auto read = std::get<IntervalRecord>(from_jsonl(to_jsonl(written), "test"));
  EXPECT_EQ(to_jsonl(read), to_jsonl(written));
  EXPECT_EQ(read.report.layers, written.report.layers);
  EXPECT_EQ(read.report.curvature, written.report.curvature);
  EXPECT_EQ(read.report.skipped_layer, 1);
  EXPECT_EQ(read.precisions, "hb");
  EXPECT_EQ(read.learning_rate_scale, 1.3333334f);
  EXPECT_EQ(read.learning_rate_scales, (std::vector<float>{0.1f, 0.7f}));
}

TEST(MetricsFiles, ReadBackWhatBecameOfSavedTensors) {
  StepReport report = sample_report(10);
  report.saved =
      SavedCounts{.saved = 5, .fp32_bytes = 1000, .allocations = 2, .allocated_bytes = 256};
  std::string line = to_jsonl(interval_record(report, sample_plan()));
  EXPECT_EQ(std::get<IntervalRecord>(from_jsonl(line, "t")).report.saved, report.saved);
  const std::string_view place = "\"saved\":{";
  ASSERT_NE(line.find(place), line.npos);
  line.insert(line.find(place) + place.size(), R"("prediction":{"blocks":100,"saved_bytes":30},)");
  EXPECT_EQ(std::get<IntervalRecord>(from_jsonl(line, "t")).report.saved, report.saved)
      << "earlier versions predicted blocks";
}

TEST(MetricsFiles, ReadBackTheCompressionNoiseByLayer) {
  StepReport report = sample_report(10);
  report.compression_noise = CompressionNoise{.compression_variance = 0.3,
                                              .batch_variance = 4,
                                              .error = 0.01,
                                              .layers = {{0.1, 2}, {0.2, 0.5}}};
  const std::string line = to_jsonl(interval_record(report, sample_plan()));
  const auto read = std::get<IntervalRecord>(from_jsonl(line, "t"));
  EXPECT_EQ(read.report.compression_noise, report.compression_noise);
  const auto with = [&line](const std::string& from, const std::string& to) {
    EXPECT_NE(line.find(from), std::string::npos) << line;
    return std::string(line).replace(line.find(from), from.size(), to);
  };
  EXPECT_THROW(from_jsonl(with("[0.1,2.0]", "[0.1]"), "t"), StorageError);
  const std::string former =
      with("\"compression_noise\":{\"compression_variance\"", "\"code_noise\":{\"code_variance\"");
  const auto old = std::get<IntervalRecord>(from_jsonl(former, "t"));
  EXPECT_EQ(old.report.compression_noise, report.compression_noise);
}

TEST(MetricsFiles, SayWhyThereWasNoProbe) {
  StepReport report = sample_report(10);
  report.curvature = CurvatureReport{.skipped = "no room under the budget"};
  const auto read =
      std::get<IntervalRecord>(from_jsonl(to_jsonl(interval_record(report, sample_plan())), "t"));
  EXPECT_EQ(read.report.curvature, report.curvature);
}

TEST(MetricsFiles, ReadLinesFromBeforeTheControlLoop) {
  const auto read = std::get<IntervalRecord>(from_jsonl(
      "{\"kind\":\"interval\",\"step\":10,\"batch\":96,\"layers\":[[9,0.5,2.0,1.25,0]]}", "test"));
  EXPECT_EQ(read.report.layers.at(0).count, 9);
  EXPECT_EQ(read.report.layers.at(0).fp16_scale, 1);
  EXPECT_EQ(read.learning_rate_scale, 1);
  EXPECT_EQ(read.precisions, "");
  EXPECT_FALSE(read.report.curvature.has_value());
}

TEST(MetricsFiles, CanBeReadWhileTheRunGoesOn) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {});
  train(files, 0, 30);
  EXPECT_EQ(read_metrics(scratch.path() / kMetricsJsonl).intervals.size(), 3u);
}

TEST(MetricsFiles, KeepWhatIsNotANumberReadable) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {});
  StepReport report = sample_report(10);
  report.loss = std::numeric_limits<double>::infinity();
  report.layers[0].sum = std::nan("");
  files.interval(report, sample_plan());
  const RunMetrics read = read_metrics(scratch.path() / kMetricsJsonl);
  EXPECT_TRUE(std::isnan(read.intervals.at(0).report.loss));
  EXPECT_TRUE(std::isnan(read.intervals.at(0).report.layers.at(0).sum));
}

TEST(MetricsFiles, EveryRowOfTheCsvFileHasTheColumnsOfItsHeader) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 100);
  const auto rows = csv_of(scratch.path() / kMetricsCsv);
  ASSERT_EQ(rows.size(), 1u + 10u + 2u);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(rows[0][2], "step");
  EXPECT_EQ(rows[1][2], "10");
  EXPECT_EQ(rows[0][18], "memory_peak");
  EXPECT_EQ(rows[1][18], std::to_string(212 << 20));
  EXPECT_EQ(rows.back()[0], "evaluation");
  EXPECT_EQ(rows.back()[6], "0.875");
}

TEST(MetricsFiles, AResumedRunEqualsOneThatWasNotInterrupted) {
  ScratchDirectory whole;
  write_run(whole.path(), 100);
  ScratchDirectory cut;
  {
    MetricsFiles files(cut.path(), {});
    train(files, 0, 70);
  }
  append_to(cut.path() / kMetricsJsonl,
            "{\"kind\":\"interval\",\"step\":80,\"memory\":{\"used\":1}");
  append_to(cut.path() / kMetricsCsv, "interval,\"train\",8");
  for (int attempt = 0; attempt < 3; ++attempt) {
    MetricsFiles files(cut.path(), {.resume_after_step = 50});
    train(files, 50, attempt < 2 ? 60 : 100);
    if (attempt == 2) files.finish(sample_summary(100));
  }
  EXPECT_EQ(file_text(cut.path() / kMetricsCsv), file_text(whole.path() / kMetricsCsv));
  std::vector<std::int64_t> steps;
  int starts = 0;
  for_each_metrics_line(cut.path() / kMetricsJsonl, {}, [&](std::string_view, MetricsRecord& r) {
    starts += std::holds_alternative<RunInfo>(r) ? 1 : 0;
    if (std::holds_alternative<IntervalRecord>(r)) steps.push_back(step_of(r));
  });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_EQ(starts, 2) << "the first, and that of the resumption which went through";
  EXPECT_EQ(std::distance(fs::directory_iterator(cut.path()), {}), 3) << "no temporary file left";
}

TEST(MetricsFiles, AFinishedRunThatGoesOnHasNotEndedYet) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 50);
  MetricsFiles files(scratch.path(), {.resume_after_step = 50});
  EXPECT_FALSE(read_metrics(scratch.path() / kMetricsJsonl).summary.has_value());
}

TEST(MetricsFiles, AResumedRunDropsDamagedLinesWithAWarning) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 50);
  const fs::path path = scratch.path() / kMetricsJsonl;
  std::string lines = file_text(path);
  const std::size_t second = lines.find('\n') + 1;
  lines.replace(second, lines.find('\n', second) - second, std::string(9, '\0'));
  std::ofstream(path, std::ios::binary) << lines;
  std::vector<std::string> warnings;
  const MetricsFiles files(scratch.path(), {.resume_after_step = 50, .warn = [&](const auto& what) {
                                              warnings.push_back(what);
                                            }});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("metrics.jsonl:2"), std::string::npos) << warnings[0];
  EXPECT_EQ(read_metrics(path).intervals.size(), 4u);
}

TEST(MetricsFiles, AResumedRunDropsDamagedPlansWithAWarning) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 50);
  const fs::path path = scratch.path() / kPlansJsonl;
  const std::string lines = file_text(path);
  std::ofstream(path, std::ios::binary) << "{\"step\":0,\n" << lines;
  std::vector<std::string> warnings;
  const MetricsFiles files(scratch.path(), {.resume_after_step = 50, .warn = [&](const auto& what) {
                                              warnings.push_back(what);
                                            }});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("plans.jsonl:1"), std::string::npos) << warnings[0];
  EXPECT_EQ(file_text(path), lines);
}

TEST(MetricsFiles, AResumptionThatFailsLeavesNothing) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 50);
  fs::remove(scratch.path() / kMetricsCsv);
  fs::create_directories(scratch.path() / kMetricsCsv / "in the way");
  EXPECT_ANY_THROW(MetricsFiles(scratch.path(), {.resume_after_step = 30}));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 3);
}

TEST(MetricsFiles, ResumeWithoutAnyFileStartsThem) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {.resume_after_step = 50});
  train(files, 50, 60);
  EXPECT_EQ(read_metrics(scratch.path() / kMetricsJsonl).intervals.size(), 1u);
}

TEST(MetricsFiles, ANewRunReplacesOldFiles) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 100);
  write_run(scratch.path(), 20);
  EXPECT_EQ(read_metrics(scratch.path() / kMetricsJsonl).intervals.size(), 2u);
}

TEST(MetricsFiles, NameTheFileThatCannotBeWritten) {
  try {
    MetricsFiles files("/nonexistent/run", {});
    FAIL() << "wrote into nowhere";
  } catch (const StorageError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/run/metrics.jsonl"), std::string::npos);
  }
}

TEST(MetricsFiles, ThrowWhenTheDiskIsFull) {
  ScratchDirectory scratch;
  fs::create_symlink("/dev/full", scratch.path() / kMetricsJsonl);
  MetricsFiles files(scratch.path(), {});
  EXPECT_THROW(files.notice("no room"), StorageError);
}

TEST(ReadMetrics, LeavesOutALastLineCutAnywhere) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 20);
  const fs::path path = scratch.path() / kMetricsJsonl;
  const std::string whole = file_text(path);
  const std::size_t last_line = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = last_line; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    const RunMetrics read = read_metrics(path);
    EXPECT_EQ(read.intervals.size(), 2u) << size;
    EXPECT_EQ(read.torn, size > last_line && size < whole.size() - 1) << size;
  }
}

TEST(ReadMetrics, NamesFileAndLineOfDamageElsewhere) {
  ScratchDirectory scratch;
  const fs::path path = scratch.path() / kMetricsJsonl;
  const std::string good = "{\"kind\":\"notice\",\"step\":1,\"message\":\"\"}\n";
  for (const std::string bad :
       {"", "{", "[]", "{\"kind\":\"interval\"}", "{\"kind\":\"waltz\",\"step\":1}",
        "{\"kind\":\"interval\",\"step\":1e300}", "{\"kind\":\"interval\",\"step\":1,\"memory\":3}",
        "{\"kind\":\"interval\",\"step\":1,\"plan\":\"xyz\"}",
        "{\"kind\":\"interval\",\"step\":1,\"layers\":[[1]]}",
        "{\"kind\":\"interval\",\"step\":1,\"loss\":\"low\"}",
        "{\"kind\":\"interval\",\"step\":1,\"precisions\":\"fx\"}",
        "{\"kind\":\"interval\",\"step\":1,\"learning_rate_scales\":[\"a\"]}",
        "{\"kind\":\"interval\",\"step\":1,\"curvature\":{\"mode\":\"guess\"}}",
        "{\"kind\":\"interval\",\"step\":1,\"curvature\":{\"mode\":\"hessian\",\"layers\":[[1,2,3]]"
        "}}",
        "{\"kind\":\"start\",\"step\":1,\"seed\":-1}"}) {
    std::ofstream(path, std::ios::binary) << good << bad << '\n' << good;
    try {
      read_metrics(path);
      ADD_FAILURE() << "read " << bad;
    } catch (const StorageError& error) {
      EXPECT_NE(std::string(error.what()).find("metrics.jsonl:2"), std::string::npos)
          << error.what();
    }
  }
}

TEST(ReadMetrics, LeavesOutWhatWasMeasuredBeforeTheRunWentBack) {
  ScratchDirectory scratch;
  MetricsFiles files(scratch.path(), {});
  train(files, 0, 70);
  for (const std::int64_t step : {30, 40}) files.interval(sample_report(step), sample_plan());
  const RunMetrics read = read_metrics(scratch.path() / kMetricsJsonl);
  std::vector<std::int64_t> steps;
  for (const IntervalRecord& interval : read.intervals) steps.push_back(interval.report.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{10, 20, 30, 40}));
  EXPECT_TRUE(read.evaluations.empty()) << "that after step 50 was undone";
}

TEST(ReadMetrics, RefusesAFileBeyondItsLimit) {
  ScratchDirectory scratch;
  write_run(scratch.path(), 100);
  EXPECT_THROW(read_metrics(scratch.path() / kMetricsJsonl, {.max_bytes = 1000}), StorageError);
}

TEST(RunFiles, AreReadOnlyWhenTheyAreRegular) {
  const ScratchDirectory scratch;
  const fs::path pipe = scratch.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(read_metrics(pipe), StorageError) << "opening a pipe would block";
  EXPECT_THROW(read_text_file(pipe, 1000), StorageError);
  EXPECT_THROW(read_text_file(scratch.path(), 1000), StorageError);
}

}  // namespace
}  // namespace triaccel
