#include "triaccel/telemetry/records/summary.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/efficiency_score.h"

namespace triaccel {
namespace {

TEST(Summary, ReadsBackEveryField) {
  ScratchDirectory scratch;
  const auto path = scratch.path() / kSummaryFile;
  write_summary(path, sample_summary(30));
  EXPECT_EQ(to_json(read_summary(path)), to_json(sample_summary(30)));
  EXPECT_EQ(read_summary(path).memory_retries, 2);
  EXPECT_EQ(read_summary(path).compression_noise_by_layer, (std::vector<double>{0.25, 0.5}));
}

TEST(Summary, MayHaveManyClasses) {
  ScratchDirectory scratch;
  const auto path = scratch.path() / kSummaryFile;
  RunSummary summary = sample_summary(30);
  summary.class_names.assign(100'000, std::string(80, 'x'));
  summary.class_accuracies.assign(100'000, 12.5);
  write_summary(path, summary);
  EXPECT_EQ(read_summary(path).class_names.size(), 100'000u);
}

TEST(Summary, ReadsOneFromBeforeTheControlLoop) {
  const RunSummary old = summary_from_json("{\"method\":\"amp\",\"accuracy\":87.5}", "test");
  EXPECT_EQ(old.accuracy, 87.5);
  EXPECT_EQ(old.score, 0);
  EXPECT_EQ(old.plan_changes, 0);
  EXPECT_TRUE(old.compression_noise_by_layer.empty());
}

TEST(Summary, ReadsTheNamesOfEarlierVersions) {
  EXPECT_EQ(summary_from_json(R"({"code_noise":0.5})", "test").compression_noise, 0.5);
  EXPECT_EQ(summary_from_json(R"({"status":"interrupted"})", "test").status, "stopped");
  const RunSummary early = summary_from_json(R"({"status":"stopped early"})", "test");
  EXPECT_EQ(early.status, "finished");
  EXPECT_EQ(early.reason, "stopped early");
  EXPECT_EQ(summary_from_json(R"({"prediction_blocks":7,"steps":3})", "test").steps, 3);
}

TEST(Summary, HasTheKeysThatScriptsReadAndFitsOneLine) {
  const std::string json = to_json(sample_summary(30));
  for (const char* key : {"method",
                          "model",
                          "data",
                          "seed",
                          "accuracy",
                          "loss",
                          "seconds",
                          "samples",
                          "peak_bytes",
                          "budget_bytes",
                          "batch_final",
                          "steps",
                          "commit",
                          "device",
                          "status",
                          "stem",
                          "score",
                          "plan_changes",
                          "curvature_probes",
                          "control_seconds",
                          "layers_fp16",
                          "layers_bf16",
                          "layers_fp32",
                          "batch_largest",
                          "rollbacks",
                          "compression_noise",
                          "compression_noise_by_layer"})
    EXPECT_NE(json.find(text("\"", key, "\":")), std::string::npos) << key;
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(Summary, SurvivesWhatIsNeitherANumberNorUtf8) {
  RunSummary summary = sample_summary(30);
  summary.loss = std::nan("");
  summary.device = "caf\xE9";
  const RunSummary read = summary_from_json(to_json(summary), "test");
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(read.device, "caf\xEF\xBF\xBD");
}

TEST(Summary, LeavesTheOldFileWhenItCannotBeReplaced) {
  ScratchDirectory scratch;
  const auto path = scratch.path() / kSummaryFile;
  write_summary(path, sample_summary(30));
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit few{.rlim_cur = 10, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &few);
  EXPECT_THROW(write_summary(path, sample_summary(99)), StorageError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_summary(path).steps, 30);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
}

TEST(Summary, LeavesFilesWithTheNameOfItsTemporaryFileAlone) {
  ScratchDirectory scratch;
  const auto path = scratch.path() / kSummaryFile;
  std::ofstream(path.string() + ".partial") << "mine";
  std::filesystem::create_symlink(scratch.path() / "elsewhere", path.string() + ".partial-2");
  write_summary(path, sample_summary(30));
  EXPECT_EQ(read_summary(path).steps, 30);
  EXPECT_EQ(read_text_file(path.string() + ".partial", 100), "mine");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "elsewhere"));
}

TEST(Summary, NamesTheFileAndTheKeyThatIsWrong) {
  EXPECT_THROW(read_summary("/nonexistent/summary.json"), StorageError);
  try {
    summary_from_json("{\"steps\": \"many\"}", "runs/a/summary.json");
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_NE(std::string(error.what()).find("runs/a/summary.json: 'steps'"), std::string::npos);
  }
}

TEST(EfficiencyScore, IsThePapersWherePrintedColumnsFollowFromIt) {
  EXPECT_NEAR(efficiency_score(77.0, 21.0, 0.35e9), 10.48, 0.005);
  EXPECT_NEAR(efficiency_score(74.3, 19.0, 0.29e9), 13.48, 0.005);
  EXPECT_TRUE(std::isnan(efficiency_score(77.0, 0, 0.35e9)));
  const RunSummary run{.accuracy = 80,
                       .seconds_per_epoch = 2,
                       .peak_reserved_bytes = 500'000'000,
                       .data_bytes = 100'000'000};
  EXPECT_DOUBLE_EQ(efficiency_score(run), 100);
}

}  // namespace
}  // namespace triaccel
