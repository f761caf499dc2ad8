#include <gtest/gtest.h>

#include "tests/telemetry/report/html_faults.h"
#include "tests/telemetry/sample_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/saved_rows.h"

namespace triaccel {
namespace {

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

TEST(SavedPage, IsWrittenNextToItsRows) {
  const ScratchDirectory folder;
  const std::vector<SavedRow> rows = SavedExample().rows();
  write_saved_files(folder.path(), rows, "saved");
  EXPECT_EQ(file_text(folder.path() / "saved.json"), saved_rows_json(rows));
  EXPECT_EQ(file_text(folder.path() / "saved.csv"), saved_rows_csv(rows));
  EXPECT_EQ(file_text(folder.path() / "saved.html"), saved_page(rows, "saved"));
}

TEST(SavedPage, IsWellFormed) {
  EXPECT_EQ(first_fault(saved_page(SavedExample().rows(), "Saved & coded")), "");
  EXPECT_EQ(first_fault(saved_page({}, "none")), "");
}

}  // namespace
}  // namespace triaccel
