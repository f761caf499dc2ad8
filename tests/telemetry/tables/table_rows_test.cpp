#include "triaccel/telemetry/tables/table_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/telemetry/report/html_faults.h"
#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/tables/table_text.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

TableRow row_of(const std::string& method, std::uint64_t seed, double accuracy, double seconds = 2,
                double megabytes = 400) {
  return {.model = "resnet18",
          .stem = "imagenet",
          .data = "cifar10",
          .method = method,
          .seed = seed,
          .epochs = 30,
          .accuracy = accuracy,
          .seconds_per_epoch = seconds,
          .peak_allocated_mb = megabytes - 50,
          .peak_reserved_mb = megabytes,
          .score = accuracy / (seconds * megabytes / 1000),
          .commit = "abc1234",
          .device = "NVIDIA H200",
          .batch_final = 96,
          .learning_rate = 0.1,
          .weight_decay = 5e-4};
}

std::vector<TableRow> sample_rows() {
  return {row_of("fp32", 1, 86), row_of("fp32", 2, 87), row_of("triaccel", 1, 86.5, 1.5, 300),
          row_of("triaccel", 2, 87.5, 1.5, 300)};
}

TableRow ablation_row(const std::string& configuration, double megabytes) {
  TableRow row = row_of(configuration == "standard" ? "fp32" : "triaccel", 1, 86, 2, megabytes);
  row.table = PaperTable::Table2;
  row.configuration = configuration;
  return row;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PaperFigures, ScoresFollowFromTheColumnsInElevenOfTwelveRows) {
  int follow = 0;
  for (const PaperFigure& figure : paper_table1())
    follow += std::abs(figure.accuracy / (figure.seconds_per_epoch * figure.gigabytes) -
                       figure.score) < 0.011;
  EXPECT_EQ(follow, 11);
  EXPECT_EQ(paper_table2().size(), 8u);
}

TEST(TableRows, ReadBackEqualAndReplaceTheRowOfTheSameRun) {
  ScratchDirectory scratch;
  const fs::path path = scratch.path() / kResultFile;
  EXPECT_TRUE(read_rows(path).empty());
  std::vector<TableRow> rows = sample_rows();
  rows[1].timed = false;
  rows.push_back(ablation_row("full", 300));
  EXPECT_EQ(record_rows(path, rows), rows);
  EXPECT_EQ(read_rows(path), rows);
  rows[2].accuracy = 90;
  TableRow other_epochs = rows[2];
  other_epochs.epochs = 15;
  record_rows(path, std::vector{rows[2], other_epochs});
  rows.push_back(other_epochs);
  EXPECT_EQ(read_rows(path), rows);
}

TEST(TableRows, AreNotLostWhenSeveralRunsEndAtOnce) {
  ScratchDirectory scratch;
  const fs::path path = scratch.path() / kResultFile;
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      for (const char* method : {"fp32", "amp", "triaccel"})
        record_rows(path, std::vector{row_of(method, seed, 86)});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_rows(path).size(), 12u);
}

TEST(TableRows, NameFileAndRowOfDamage) {
  ScratchDirectory scratch;
  const fs::path path = scratch.path() / kResultFile;
  for (const std::string bad : {"3", "{\"seed\":-1}", "{\"table\":\"table3\"}", "{\"timed\":1}"}) {
    std::ofstream(path) << "[{}," << bad << "]";
    try {
      read_rows(path);
      ADD_FAILURE() << "read " << bad;
    } catch (const StorageError& error) {
      EXPECT_TRUE(contains(error.what(), "result.json: row 2")) << error.what();
    }
  }
  std::ofstream(path) << "[{";
  EXPECT_THROW(read_rows(path), StorageError);
}

TEST(TableRow, ComesFromASummaryWithoutItsDataSet) {
  const TableRow row = table_row(sample_summary(30));
  EXPECT_EQ(row.stem, "cifar");
  EXPECT_NEAR(row.peak_reserved_mb, static_cast<double>(173 << 20) / 1e6, 1e-9);
  EXPECT_NEAR(row.score, row.accuracy / (row.seconds_per_epoch * row.peak_reserved_mb / 1000),
              1e-9);
}

TEST(SpreadOf, IsMeanAndDeviationOfTheSample) {
  const std::vector<double> values = {1, 2, std::nan(""), 3};
  EXPECT_EQ(spread_of(values).count, 3u);
  EXPECT_DOUBLE_EQ(spread_of(values).mean, 2);
  EXPECT_DOUBLE_EQ(spread_of(values).deviation, 1);
  EXPECT_TRUE(std::isnan(spread_of(std::vector{5.0}).deviation));
  EXPECT_TRUE(std::isnan(spread_of({}).mean));
}

TEST(TableText, StandsBesideThePapersFigures) {
  const std::string text = table_text(sample_rows(), PaperTable::Table1);
  for (const char* part :
       {"resnet18 (imagenet stem) on cifar10, 30 epochs", "86.50 ± 0.71", "87.00 ± 0.71", "300.0",
        "77.0", "10.48", "12.92",
        "triaccel over fp32: accuracy +0.50 points, time -25.0 %, memory -25.0 %, score +78.8 %\n"
        "  in the paper: accuracy +1.10 points, time -7.1 %, memory -11.4 %, score +23.3 %\n",
        "Not run: efficientnet-b0 on cifar10, resnet18 on cifar100, efficientnet-b0 on cifar100"})
    EXPECT_TRUE(contains(text, part)) << part << " in:\n" << text;
  EXPECT_FALSE(contains(text, "over amp")) << "which was not run";
  EXPECT_FALSE(contains(text, "nan"));
}

TEST(TableText, LeavesOutTimesOfRunsThatSharedTheMachine) {
  std::vector<TableRow> rows = sample_rows();
  rows[0].timed = false;
  rows[0].seconds_per_epoch = 1000;
  const TableLine fp32 = table_groups(rows, PaperTable::Table1).at(0).lines.at(0);
  EXPECT_EQ(fp32.seeds, 2u);
  EXPECT_EQ(fp32.untimed, 1u);
  EXPECT_DOUBLE_EQ(fp32.seconds_per_epoch.mean, 2);
  EXPECT_DOUBLE_EQ(fp32.accuracy.mean, 86.5);
  EXPECT_TRUE(contains(table_text(rows, PaperTable::Table1), "Time and score of 1 run(s)"));
}

TEST(TableText, ComparesTheAblationWithStandardTraining) {
  const std::vector<TableRow> rows = {ablation_row("standard", 400), ablation_row("full", 300),
                                      ablation_row("no-curvature", 320)};
  const std::string text = table_text(rows, PaperTable::Table2);
  for (const char* part :
       {"25.0", "12.3", "20.0", "full over standard", "no-curvature", "dynamic-precision"})
    EXPECT_TRUE(contains(text, part)) << part << " in:\n" << text;
  EXPECT_TRUE(contains(table_text(rows, PaperTable::Table1), "Not run: resnet18 on cifar10"));
}

TEST(TableText, KeepsRunsOfDifferentLengthAndStemApart) {
  std::vector<TableRow> rows = sample_rows();
  rows[1].epochs = 15;
  rows[2].stem = "cifar";
  EXPECT_EQ(table_groups(rows, PaperTable::Table1).size(), 3u);
}

TEST(WriteTableFiles, WritesAllOfThemAndKeepsRowsRecordedBefore) {
  ScratchDirectory scratch;
  const fs::path folder = scratch.path() / "records" / "today";
  const std::vector<TableRow> ablation = {ablation_row("standard", 400)};
  write_table_files(folder, ablation, PaperTable::Table2, {});
  RunRecord record{.name = "run", .summary = sample_summary(30)};
  record.metrics.intervals = {interval_record(controlled_report(10), controlled_plan()),
                              interval_record(controlled_report(20), sample_plan())};
  const std::vector<TableRun> runs = {{sample_rows()[2], record}};
  write_table_files(folder, sample_rows(), PaperTable::Table1, runs);
  EXPECT_EQ(read_rows(folder / kResultFile).size(), 5u);
  const std::string csv = file_text(folder / "table1.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 4);
  EXPECT_EQ(file_text(folder / "table1.txt"), table_text(sample_rows(), PaperTable::Table1));
  const std::string html = file_text(folder / "table1.html");
  for (const char* part : {"86.50 ± 0.71", "Precision of each layer: triaccel", "</html>"})
    EXPECT_TRUE(contains(html, part)) << part;
  EXPECT_EQ(first_fault(html), "");
  EXPECT_EQ(first_fault(file_text(folder / "table2.html")), "");
}

}  // namespace
}  // namespace triaccel
