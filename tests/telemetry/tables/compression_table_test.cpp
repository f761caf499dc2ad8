#include "triaccel/telemetry/tables/compression_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/telemetry/report/html_faults.h"
#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/tables/table_rows.h"

namespace triaccel {
namespace {

CompressionRow row_of(const std::string& model, const std::string& codec, double held, double speed,
                      std::uint64_t seed = 1) {
  return {.model = model,
          .image_size = 32,
          .batch = 128,
          .codec = codec,
          .held_ratio = held,
          .peak_ratio = held / 2,
          .accuracy = 90,
          .accuracy_drop = codec == "fdsr" ? 0.2 * static_cast<double>(seed) : 0,
          .throughput_ratio_to_fp32 = speed,
          .commit = "abc1234",
          .data = "cifar10",
          .epochs = 30,
          .seed = seed,
          .largest_batch = 1024,
          .device = "a <machine>"};
}

std::vector<CompressionRow> some_rows() {
  return {row_of("resnet18", "actnn", 7, 0.7),      row_of("resnet18", "fp32", 1, 1),
          row_of("resnet18", "fdsr", 10.4, 0.9),    row_of("resnet18", "fdsr", 10.6, 0.9, 2),
          row_of("resnet18", "division", 6.4, 0.8), row_of("vit", "fdsr", 8.5, 0.85)};
}

bool found(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

TEST(CompressionRows, BeginWithTheFieldsOfARecord) {
  const std::vector<CompressionRow> rows = {row_of("resnet18", "fdsr", 10.4, 0.9)};
  const std::string json = compression_rows_json(rows);
  EXPECT_NE(json.find("{\"model\":\"resnet18\",\"image_size\":32,\"batch\":128,\"codec\":\"fdsr\","
                      "\"held_ratio\":10.4,\"peak_ratio\":5.2,\"accuracy\":90.0,"
                      "\"accuracy_drop\":0.2,\"throughput_ratio_to_fp32\":0.9,"
                      "\"commit\":\"abc1234\","),
            std::string::npos)
      << json;
  const std::string csv = compression_rows_csv(rows);
  EXPECT_EQ(csv.find("model,image_size,batch,codec,held_ratio,peak_ratio,accuracy,accuracy_drop,"
                     "throughput_ratio_to_fp32,commit,"),
            0u);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

TEST(CompressionRows, ComeBackFromTheirFileAndReplaceTheSameRun) {
  const ScratchDirectory folder;
  std::vector<CompressionRow> rows = some_rows();
  rows[0].accuracy = std::nan("");
  write_compression_files(folder.path(), rows, {});
  CompressionRow again = rows[2];
  again.accuracy = 91;
  CompressionRow other = rows[2];
  other.target_ratio = 12;
  const std::vector<CompressionRow> all =
      record_compression_rows(folder.path() / kResultFile, std::vector{again, other});
  ASSERT_EQ(all.size(), rows.size() + 1);
  EXPECT_TRUE(std::isnan(all[0].accuracy));
  EXPECT_EQ(all[2].accuracy, 91);
  EXPECT_EQ(all.back().target_ratio, 12);
  std::ofstream(folder.path() / kResultFile) << "[3]";
  EXPECT_THROW(read_compression_rows(folder.path() / kResultFile), StorageError);
}

TEST(CompressionGroups, HaveALineACodecOverSeeds) {
  const std::vector<CompressionGroup> groups = compression_groups(some_rows());
  ASSERT_EQ(groups.size(), 2u);
  std::vector<std::string> labels;
  for (const CompressionLine& line : groups[0].lines) labels.push_back(line.label());
  EXPECT_EQ(labels, (std::vector<std::string>{"fdsr", "fp32", "actnn", "division"}));
  EXPECT_EQ(groups[0].lines[0].held_ratio.count, 2u);
  EXPECT_DOUBLE_EQ(groups[0].lines[0].held_ratio.mean, 10.5);
  EXPECT_DOUBLE_EQ(groups[0].lines[0].actnn_throughput, 0.9 / 0.7);
  EXPECT_TRUE(std::isnan(groups[1].lines[0].actnn_throughput)) << "no such codec beside it";
  EXPECT_EQ(groups[0].title(), "resnet18, 32 px, batch 128, cifar10, 30 epochs, a <machine>");
}

TEST(CompressionFindings, StandBesideTheAbstractsFigures) {
  const auto findings = compression_findings(compression_groups(some_rows()));
  EXPECT_TRUE(found(findings, "9.50 times less than FP32 on average over 2"));
  EXPECT_TRUE(found(findings, "up to 1.500 times less, on resnet18"));
  EXPECT_TRUE(found(findings, "0.25 points below FP32"));
  EXPECT_TRUE(found(findings, "up to 1.286 times that of ActNN's codec"));
  EXPECT_TRUE(compression_findings({}).empty());
}

TEST(CompressionText, ShowsGradientsOfThoseThatWereJudged) {
  std::vector<CompressionRow> rows = some_rows();
  EXPECT_EQ(compression_text(rows).find("gradients  "), std::string::npos);
  rows[0].gradient_error = 0.125;
  EXPECT_NE(compression_text(rows).find("0.12500"), std::string::npos);
}

TEST(CompressionText, LeavesOutTheSpeedOfRunsThatSharedTheMachine) {
  std::vector<CompressionRow> rows = some_rows();
  for (CompressionRow& row : rows) row.timed = false;
  const std::string text = compression_text(rows);
  EXPECT_NE(text.find("The speed of 6 run(s)"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("that of ActNN's codec"), std::string::npos);
  EXPECT_EQ(text.find("in training"), std::string::npos) << "a column of nothing";
}

/// A ReLU's output that two read, a norm's input, a constant.
struct SavedExample {
  SavedCensus census = {.samples = 4};
  std::vector<SavedStatistics> tensors;
  std::vector<SavedPlan> plans = {
      {.codec = SavedCodec::Frequency, .block = 8, .band_eighths = {64, 32, 20, 8, 0}},
      {.codec = SavedCodec::NonZeros, .eighths = 20},
      {}};
  std::vector<std::int64_t> bytes = {16384, 32768, 0};
  std::vector<double> errors = {0.03, 0.01, 0};

  SavedExample() {
    const auto add = [&](const char* consumer, SavedClass kind, std::int64_t same_as) {
      census.entries.push_back({.consumer = consumer,
                                .producer = "Convolution < Relu",
                                .kind = kind,
                                .sizes = {1, 16, 32, 32},
                                .per_sample = true,
                                .same_as = same_as});
    };
    add("NativeBatchNorm", SavedClass::NormInput, 0);
    add("Relu", SavedClass::Sign, 1);
    add("Convolution<1>", SavedClass::Positive, 1);
    add("Convolution<1>", SavedClass::Constant, 3);
    tensors = tensors_of(census);
  }
  std::vector<SavedRow> rows() const {
    return saved_rows(census, tensors, {plans, bytes, errors}, 4);
  }
};

TEST(SavedRows, TellWhatBecomesOfEveryTensor) {
  const std::vector<SavedRow> rows = SavedExample().rows();
  ASSERT_EQ(rows.size(), 2u) << "constants are not saved";
  EXPECT_EQ(rows[0].codec, "frequency8");
  EXPECT_EQ(rows[0].shape, "16x32x32");
  EXPECT_EQ(rows[0].bits, (std::vector<double>{8, 4, 2.5, 1, 0}));
  EXPECT_EQ(rows[0].fp32_bytes, 4 * 4 * 16 * 32 * 32);
  EXPECT_DOUBLE_EQ(rows[0].ratio, 16);
  EXPECT_DOUBLE_EQ(rows[0].error_share, 0.75);
  EXPECT_EQ(rows[1].consumer, "Relu + Convolution<1>");
  EXPECT_EQ(rows[1].kind, "positive");
  EXPECT_EQ(rows[1].bits, std::vector<double>{2.5});
  EXPECT_NE(saved_rows_json(rows).find("\"codec\":\"frequency8\""), std::string::npos);
  EXPECT_NE(saved_rows_csv(rows).find("\"8 4 2.5 1 0\""), std::string::npos);
  SavedExample wrong;
  wrong.bytes.pop_back();
  EXPECT_THROW(wrong.rows(), UsageError);
}

TEST(BitPicture, ShowsBitsAsShadesAndNothingWhereABandIsDropped) {
  const std::vector<SavedRow> rows = SavedExample().rows();
  const std::string picture = svg_bit_picture(rows, "bits");
  EXPECT_NE(picture.find("cell h7"), std::string::npos);
  EXPECT_NE(picture.find("cell h3"), std::string::npos);
  EXPECT_NE(picture.find("\"room\""), std::string::npos);
  EXPECT_NE(picture.find("32 KiB, 8.0x, 25.0 %"), std::string::npos);
  EXPECT_EQ(picture.find("Convolution<1>"), std::string::npos) << "escaped";
}

TEST(SavedPage, IsWrittenBesideItsRows) {
  const ScratchDirectory folder;
  const std::vector<SavedRow> rows = SavedExample().rows();
  write_saved_files(folder.path(), rows, "saved");
  EXPECT_EQ(file_text(folder.path() / "saved.json"), saved_rows_json(rows));
  EXPECT_EQ(file_text(folder.path() / "saved.csv"), saved_rows_csv(rows));
  EXPECT_EQ(file_text(folder.path() / "saved.html"), saved_page(rows, "saved"));
  EXPECT_EQ(read_saved_rows(folder.path() / "saved.json"), rows);
}

TEST(SavedPage, IsWellFormed) {
  EXPECT_EQ(first_fault(saved_page(SavedExample().rows(), "Saved & coded")), "");
  EXPECT_EQ(first_fault(saved_page({}, "none")), "");
}

TEST(CompressionPage, IsWellFormedAndEscapesItsTexts) {
  const std::vector<BitPicture> pictures = {{"resnet18 <10.2x>", SavedExample().rows()}};
  const std::string page = compression_page(some_rows(), pictures);
  EXPECT_EQ(first_fault(page), "");
  EXPECT_NE(page.find("a &lt;machine&gt;"), std::string::npos);
  EXPECT_NE(page.find("resnet18 &lt;10.2x&gt;"), std::string::npos);
  EXPECT_NE(page.find("Throughput over FP32"), std::string::npos);
}

}  // namespace
}  // namespace triaccel
