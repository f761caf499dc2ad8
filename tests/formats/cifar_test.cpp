#include "triaccel/formats/cifar.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/formats/sample_files.h"

namespace triaccel {
namespace {

using test::Bytes;
using test::cifar_records;
using test::small_layout;
using test::TestFolder;

TEST(ReadCifar, ReadsTheFilesInOrder) {
  const CifarLayout layout = small_layout(cifar10_layout());
  const TestFolder folder;
  test::write_cifar_set(folder, layout);
  const ImageSplits splits = read_cifar(folder.path(), layout);
  EXPECT_EQ(splits.train.name, "cifar10");
  EXPECT_EQ(splits.train.count, 50);
  EXPECT_EQ(splits.train.channels, 3);
  EXPECT_EQ(splits.train.height, 32);
  EXPECT_EQ(splits.train.width, 32);
  EXPECT_EQ(splits.train.pixels.size(), 50u * 3072);
  EXPECT_EQ(splits.train.pixels[3072 * 13 + 3071], 3);
  EXPECT_EQ(splits.train.labels[13], 3);
  EXPECT_EQ(splits.test.count, 10);
  EXPECT_TRUE(splits.findings.empty());
}

TEST(ReadCifar, TakesTheFineLabelOfCifar100) {
  const CifarLayout layout = small_layout(cifar100_layout());
  const TestFolder folder;
  test::write_cifar_set(folder, layout);
  const ImageSplits splits = read_cifar(folder.path(), layout);
  EXPECT_EQ(splits.train.count, 100);
  EXPECT_EQ(splits.train.classes, 100);
  EXPECT_EQ(splits.train.labels[57], 57);
  EXPECT_EQ(splits.train.pixels[3072 * 57], 57);
}

TEST(ReadCifar, TheOfficialSetsHaveTheirOfficialSizes) {
  const TestFolder folder;
  test::write_cifar_set(folder, small_layout(cifar10_layout()));
  EXPECT_THROW(read_cifar10(folder.path()), DataError);
}

TEST(AppendCifarRecords, EveryTruncationIsATypedError) {
  for (const CifarLayout& layout : {cifar10_layout(), cifar100_layout()}) {
    const Bytes file = cifar_records(layout, 2);
    for (std::size_t n = 0; n < file.size(); ++n) {
      ImageSet set;
      DefectLog log;
      EXPECT_THROW(append_cifar_records(std::span(file).first(n), "x", layout, 2, set, log),
                   DataError)
          << n;
    }
  }
}

TEST(AppendCifarRecords, ReportKeepsTheRecordsAroundABadOne) {
  const CifarLayout layout = cifar10_layout();
  Bytes file = cifar_records(layout, 3);
  file[3073] = std::byte{10};
  ImageSet set;
  DefectLog log(BadData::Report);
  EXPECT_EQ(append_cifar_records(file, "x", layout, 0, set, log), 3);
  EXPECT_EQ(set.count, 2);
  EXPECT_EQ(set.labels, (std::vector<std::uint8_t>{0, 2}));
  EXPECT_EQ(set.pixels[3072], 2);
}

TEST(AppendCifarRecords, ScansSixtyThousandRecordsInFiveSeconds) {
  const CifarLayout layout = cifar10_layout();
  const Bytes file = cifar_records(layout, 10'000);
  const auto start = std::chrono::steady_clock::now();
  for (int batch = 0; batch < 6; ++batch) {
    ImageSet set;
    DefectLog log;
    append_cifar_records(file, "x", layout, 10'000, set, log);
    ASSERT_EQ(set.count, 10'000);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace triaccel
