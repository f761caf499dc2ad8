#include "triaccel/telemetry/records/zeroth_order_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/plan_record.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "triaccel_slopes_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::vector<ZerothOrderStep> steps(std::int64_t from, std::int64_t to, float scale = 1) {
  std::vector<ZerothOrderStep> all;
  for (std::int64_t i = from; i < to; ++i)
    all.push_back({i, 6e-5 / (1.0 + static_cast<double>(i)), {scale / 3, -1e-30f, 0}});
  return all;
}

StepReport report_with(std::vector<ZerothOrderStep> done) {
  StepReport report;
  report.zeroth_order = std::move(done);
  return report;
}

TEST(ZerothOrderFile, GivesBackEveryStepToTheLastBit) {
  const Folder folder;
  ZerothOrderFile file(folder.path, 0);
  file.interval(report_with({}), {});
  EXPECT_FALSE(fs::exists(folder.path / kZerothOrderCsv)) << "nothing to tell";
  file.interval(report_with(steps(0, 5)), {});
  file.interval(report_with(steps(5, 9)), {});
  EXPECT_EQ(read_zeroth_order(folder.path / kZerothOrderCsv), steps(0, 9));
}

TEST(ZerothOrderFile, GoesOnFromAnEarlierStep) {
  const Folder folder;
  ZerothOrderFile(folder.path, 0).interval(report_with(steps(0, 9)), {});
  std::ofstream(folder.path / kZerothOrderCsv, std::ios::app) << "9,6e-05,0.1";  // torn
  ZerothOrderFile resumed(folder.path, 6);
  resumed.interval(report_with(steps(6, 8, 2)), {});
  std::vector<ZerothOrderStep> expected = steps(0, 6);
  for (const ZerothOrderStep& step : steps(6, 8, 2)) expected.push_back(step);
  EXPECT_EQ(read_zeroth_order(folder.path / kZerothOrderCsv), expected);
}

TEST(ZerothOrderFile, CountsWhatWasDoneAgainAfterARollback) {
  const Folder folder;
  ZerothOrderFile file(folder.path, 0);
  file.interval(report_with(steps(0, 9)), {});
  file.interval(report_with(steps(4, 6, 2)), {});
  EXPECT_EQ(read_zeroth_order(folder.path / kZerothOrderCsv).size(), 6u);
}

TEST(ZerothOrderFile, NamesALineThatIsNoStep) {
  const Folder folder;
  std::ofstream(folder.path / kZerothOrderCsv) << "step,learning_rate,gradients\n0,1,2\n2,1,2\n";
  EXPECT_THROW(read_zeroth_order(folder.path / kZerothOrderCsv), StorageError);
}

TEST(PlansFile, KeepsTheBoundaryOfAPlan) {
  const Folder folder;
  ScheduledPlan record{.step = 3, .plan = {.batch_size = 4, .micro_batch_size = 2}};
  record.plan.layers.resize(3);
  EXPECT_EQ(to_jsonl(record).find("bp_layers"), std::string::npos);
  record.plan.layers[0].gradient = record.plan.layers[1].gradient = GradientSource::ZerothOrder;
  std::ofstream(folder.path / "plans.jsonl") << to_jsonl(record) << '\n';
  EXPECT_EQ(read_plans(folder.path / "plans.jsonl"), std::vector{record});
}

}  // namespace
}  // namespace triaccel
