#include "triaccel/telemetry/console/comparison_table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/telemetry/sample_run.h"

namespace triaccel {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(ComparisonTable, AlignsItsColumnsAndGivesRatiosToTheFirstRun) {
  RunSummary twice_as_fast = sample_summary(30);
  twice_as_fast.method = "a-much-longer-method";
  twice_as_fast.seconds /= 2;
  twice_as_fast.peak_bytes /= 4;
  const std::vector<ComparisonRow> rows = {{sample_summary(30)}, {twice_as_fast}};
  const auto lines = lines_of(comparison_table(rows));
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_EQ(line.size(), lines[0].size()) << line;
  EXPECT_NE(lines[2].find("1.00x"), std::string::npos);
  EXPECT_NE(lines[3].find("2.00x"), std::string::npos);
  EXPECT_NE(lines[3].find("0.25x"), std::string::npos);
  EXPECT_NE(lines[2].find("22.43"), std::string::npos) << "the score";
}

TEST(ComparisonTable, SaysWhyAMethodWasSkipped) {
  const std::vector<ComparisonRow> rows = {{{.method = "amp"}, "slower than fp32 here"},
                                           {sample_summary(30)}};
  const std::string table = comparison_table(rows);
  EXPECT_NE(table.find("skipped: slower than fp32 here"), std::string::npos);
  EXPECT_NE(table.find("1.00x"), std::string::npos) << "the first that ran is the reference";
}

TEST(ComparisonTable, TakesRunsThatMeasuredNothing) {
  const std::vector<ComparisonRow> rows = {{RunSummary{}}};
  EXPECT_NE(comparison_table(rows).find("none"), std::string::npos);
  EXPECT_FALSE(comparison_table({}).empty());
}

}  // namespace
}  // namespace triaccel
