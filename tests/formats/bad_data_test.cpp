#include "triaccel/formats/bad_data.h"

#include <gtest/gtest.h>

#include <vector>

namespace triaccel {
namespace {

const Finding kBadLabel = {"data_batch_3.bin", 17, Defect::LabelOutOfRange, "12, the largest is 9"};
const Finding kWrongMagic = {"train-images-idx3-ubyte", -1, Defect::WrongMagic, ""};

TEST(FindingText, NamesFileRecordAndDefect) {
  EXPECT_EQ(finding_text(kBadLabel),
            "data_batch_3.bin: record 17: label out of range: 12, the largest is 9");
  EXPECT_EQ(finding_text(kWrongMagic), "train-images-idx3-ubyte: wrong magic");
}

TEST(DefectLog, FailThrowsTheFirstFinding) {
  DefectLog log(BadData::Fail);
  try {
    log.add(kBadLabel);
    FAIL() << "nothing was thrown";
  } catch (const DefectError& error) {
    EXPECT_EQ(error.finding, kBadLabel);
    EXPECT_EQ(error.what(), finding_text(kBadLabel));
  }
}

TEST(DefectLog, SkipKeepsBadRecordsButThrowsOnABadFile) {
  DefectLog log(BadData::Skip);
  log.add(kBadLabel);
  EXPECT_THROW(log.add(kWrongMagic), DefectError);
  EXPECT_EQ(log.take(), std::vector{kBadLabel});
}

TEST(DefectLog, ReportTakesEverything) {
  DefectLog log(BadData::Report);
  log.add(kBadLabel);
  log.add(kWrongMagic);
  log.close_split("train", 100, 0);
  EXPECT_EQ(log.take(), (std::vector{kBadLabel, kWrongMagic}));
}

TEST(DefectLog, SkipAllowsOneInAThousandAndNoMore) {
  const DefectLog log(BadData::Skip);
  EXPECT_NO_THROW(log.close_split("train", 60'000, 59'940));
  EXPECT_THROW(log.close_split("train", 60'000, 59'939), DataError);
}

TEST(DefectLog, TheAllowedShareCanBeChosen) {
  const DefectLog log({BadData::Skip, 0.5});
  EXPECT_NO_THROW(log.close_split("train", 10, 5));
  EXPECT_THROW(log.close_split("train", 10, 4), DataError);
}

TEST(DefectLog, CountsWhatItNoLongerLists) {
  DefectLog log(BadData::Report);
  for (int i = 0; i < 10'007; ++i) log.add(kBadLabel);
  const std::vector<Finding> findings = log.take();
  ASSERT_EQ(findings.size(), 10'001u);
  EXPECT_EQ(findings.back().defect, Defect::FurtherDefects);
  EXPECT_EQ(findings.back().detail, "7 more, not listed");
}

TEST(CheckClasses, NamesEveryClassWithoutARecord) {
  DefectLog log(BadData::Report);
  check_classes(std::vector<std::uint8_t>{0, 2, 2}, 4, "labels", log);
  const std::vector<Finding> findings = log.take();
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].detail, "no record of class 1 of 4");
  EXPECT_EQ(findings[1].detail, "no record of class 3 of 4");
}

}  // namespace
}  // namespace triaccel
