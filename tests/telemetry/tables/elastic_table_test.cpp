#include "triaccel/telemetry/tables/elastic_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/telemetry/report/html_faults.h"
#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/tables/table_rows.h"

namespace triaccel {
namespace {

ElasticRow row_of(const std::string& method, std::int64_t bp_layers, const std::string& format,
                  std::uint64_t seed, double accuracy) {
  const bool int8 = format == "int8";
  return {.model = "lenet5",
          .data = "mnist",
          .method = method,
          .number_format = format,
          .bp_layers = bp_layers,
          .seed = seed,
          .epochs = 8,
          .accuracy = accuracy,
          .peak_bytes = int8 ? 200'000 : 1'000'000 + 10'000 * bp_layers,
          .seconds_per_epoch = int8 ? 1.0 : 1.4,
          .device = "a <machine>",
          .commit = "abc1234"};
}

std::vector<ElasticRow> sample_elastic_rows() {
  return {row_of("bp", 5, "fp32", 1, 98),       row_of("zo", 0, "fp32", 1, 80),
          row_of("zo", 0, "fp32", 2, 82),       row_of("elasticzo", 2, "fp32", 1, 94),
          row_of("frozen", 2, "fp32", 1, 93),   row_of("elasticzo", 2, "int8", 1, 92),
          row_of("elasticzo", 1, "fp32", 1, 89)};
}

bool says(const std::vector<std::string>& findings, const std::string& words) {
  for (const std::string& finding : findings)
    if (finding.find(words) != finding.npos) return true;
  return false;
}

TEST(ElasticGroups, OrderMethodsFromZerothOrderToBackpropagation) {
  const std::vector<ElasticGroup> groups = elastic_groups(sample_elastic_rows());
  ASSERT_EQ(groups.size(), 1u);
  std::vector<std::string> labels;
  for (const ElasticLine& line : groups[0].lines) labels.push_back(line.label());
  EXPECT_EQ(labels, (std::vector<std::string>{"zo", "elasticzo, 1 BP layer", "frozen, 2 BP layers",
                                              "elasticzo, 2 BP layers", "bp"}));
  EXPECT_EQ(groups[0].lines[0].fp32.seeds, 2u);
  EXPECT_DOUBLE_EQ(groups[0].lines[0].fp32.accuracy.mean, 81);
  EXPECT_EQ(groups[0].lines[0].int8.seeds, 0u);
}

TEST(ElasticGroups, KeepFineTuningApartFromTraining) {
  std::vector<ElasticRow> rows = sample_elastic_rows();
  rows.push_back(rows[3]);
  rows.back().rotation = 30;
  rows.back().train_samples = 1000;
  const std::vector<ElasticGroup> groups = elastic_groups(rows);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].title(),
            "lenet5 on mnist turned by 30° (fine-tuning), 1000 training samples, 8 epochs");
}

TEST(ElasticFindings, StandBesideTheAbstractsRanges) {
  const std::vector<std::string> findings =
      elastic_findings(elastic_groups(sample_elastic_rows())[0]);
  EXPECT_TRUE(says(findings,
                   "FP32 elasticzo, 2 BP layers over zo: +13.00 points (abstract: +5.2 to +9.5), "
                   "memory +2.000 %"));
  EXPECT_TRUE(says(findings, "over the same layers on frozen features: +1.00 points"));
  EXPECT_TRUE(says(findings, "against backpropagation: -4.00 points"));
  EXPECT_TRUE(says(findings, "INT8 against FP32, elasticzo, 2 BP layers: -2.00 points"));
  EXPECT_TRUE(says(findings, "5.10 times less memory"));
  EXPECT_TRUE(says(findings, "1.40 times faster"));
}

TEST(ElasticFindings, SayHowMuchOfATurnFineTuningWonBack) {
  ElasticRow row = row_of("elasticzo", 2, "int8", 1, 90);
  row.rotation = 45;
  row.accuracy_upright = 95;
  row.accuracy_before = 75;
  const std::vector<ElasticRow> rows = {row};
  EXPECT_TRUE(says(elastic_findings(elastic_groups(rows)[0]),
                   "the turn took 20.00 points (95.00 to 75.00 %), 75 % of which came back"));
}

TEST(ElasticFindings, LeaveOutTheTimeOfRunsThatSharedTheMachine) {
  std::vector<ElasticRow> rows = sample_elastic_rows();
  for (ElasticRow& row : rows) row.timed = false;
  EXPECT_TRUE(std::isnan(elastic_groups(rows)[0].lines[0].fp32.seconds_per_epoch.mean));
  EXPECT_NE(elastic_text(rows).find("The time of 7 run(s)"), std::string::npos);
  EXPECT_EQ(elastic_text(rows).find("nan"), std::string::npos);
  EXPECT_EQ(elastic_text(rows).find("faster"), std::string::npos);
}

TEST(ElasticText, HasNoColumnsForANumberFormatThatNothingRanIn) {
  const std::vector<ElasticRow> integers = {row_of("zo", 0, "int8", 1, 76)};
  EXPECT_EQ(elastic_text(integers).find("FP32: seeds"), std::string::npos);
  EXPECT_NE(elastic_text(integers).find("INT8: seeds"), std::string::npos);
  EXPECT_EQ(elastic_page(integers).find("FP32: seeds"), std::string::npos);
  EXPECT_NE(elastic_page(sample_elastic_rows()).find("FP32: seeds"), std::string::npos);
}

TEST(ElasticRows, ComeBackFromTheirFileAndReplaceTheSameRun) {
  const ScratchDirectory folder;
  const std::vector<ElasticRow> rows = sample_elastic_rows();
  write_elastic_files(folder.path(), rows);
  ElasticRow again = rows[0];
  again.accuracy = 98.5;
  const std::vector<ElasticRow> all =
      record_elastic_rows(folder.path() / kResultFile, std::vector{again});
  ASSERT_EQ(all.size(), rows.size());
  EXPECT_EQ(all[0].accuracy, 98.5);
  EXPECT_TRUE(std::isnan(all[1].accuracy_before));
  EXPECT_EQ(read_elastic_rows(folder.path() / kResultFile).size(), rows.size());
}

TEST(ElasticPage, IsWellFormedAndEscapesItsTexts) {
  const std::string page = elastic_page(sample_elastic_rows());
  EXPECT_EQ(first_fault(page), "");
  EXPECT_NE(page.find("a &lt;machine&gt;"), std::string::npos);
}

}  // namespace
}  // namespace triaccel
