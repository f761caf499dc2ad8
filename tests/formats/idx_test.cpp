#include "triaccel/formats/idx.h"

#include <gtest/gtest.h>

#include "tests/formats/sample_files.h"

namespace triaccel {
namespace {

using test::Bytes;
using test::gzip_of;
using test::idx_images;
using test::idx_labels;
using test::TestFolder;

TEST(ParseIdxImages, ReadsCountSizeAndPixels) {
  const Bytes file = idx_images(5, 2, 3);
  DefectLog log;
  const IdxImages images = parse_idx_images(file, "x", log);
  EXPECT_EQ(images.count, 5);
  EXPECT_EQ(images.height, 2);
  EXPECT_EQ(images.width, 3);
  ASSERT_EQ(images.pixels.size(), 30u);
  EXPECT_EQ(images.pixels[29], std::byte{4});
}

TEST(ParseIdxImages, EveryTruncationIsATypedError) {
  const Bytes file = idx_images(3, 4, 4);
  for (std::size_t n = 0; n < file.size(); ++n) {
    DefectLog log;
    EXPECT_THROW(parse_idx_images(std::span(file).first(n), "x", log), DataError) << n;
  }
}

TEST(ParseIdxLabels, EveryTruncationIsATypedError) {
  const Bytes file = idx_labels(40);
  for (std::size_t n = 0; n < file.size(); ++n) {
    DefectLog log;
    EXPECT_THROW(parse_idx_labels(std::span(file).first(n), "x", log), DataError) << n;
  }
}

TEST(ParseIdxImages, CountsThatOverflowAreRefused) {
  for (const std::uint32_t count : {0xffffffffu, 0x80000000u, 1u << 26}) {
    Bytes file;
    for (const std::uint32_t word : {0x00000803u, count, 0xfffu, 0xfffu})
      test::append_word(file, word);
    DefectLog log;
    EXPECT_THROW(parse_idx_images(file, "x", log), DataError) << count;
  }
}

TEST(ParseIdxImages, SidesThatOverflowAreRefused) {
  Bytes file;
  for (const std::uint32_t word : {0x00000803u, 1u, 0xffffffffu, 0xffffffffu})
    test::append_word(file, word);
  DefectLog log;
  EXPECT_THROW(parse_idx_images(file, "x", log), DataError);
}

TEST(ReadIdxSet, ReadsBothSplits) {
  const TestFolder folder;
  test::write_idx_set(folder);
  const ImageSplits splits = read_idx_set(folder.path(), "mnist");
  EXPECT_EQ(splits.train.name, "mnist");
  EXPECT_EQ(splits.train.count, 20);
  EXPECT_EQ(splits.train.channels, 1);
  EXPECT_EQ(splits.train.height, 28);
  EXPECT_EQ(splits.train.classes, 10);
  EXPECT_EQ(splits.train.pixels.size(), 20u * 784);
  EXPECT_EQ(splits.train.pixels[784 * 13], 13);
  EXPECT_EQ(splits.train.labels[13], 3);
  EXPECT_EQ(splits.test.count, 10);
  EXPECT_TRUE(splits.findings.empty());
}

TEST(ReadIdxSet, ReadsGzippedFilesAndNamesWithADot) {
  const TestFolder folder;
  folder.write("train-images.idx3-ubyte.gz", gzip_of(idx_images(10)));
  folder.write("train-labels-idx1-ubyte.gz", gzip_of(idx_labels(10)));
  folder.write("t10k-images.idx3-ubyte", idx_images(10));
  folder.write("t10k-labels.idx1-ubyte", idx_labels(10));
  const ImageSplits splits = read_idx_set(folder.path(), "fashion-mnist");
  EXPECT_EQ(splits.train.count, 10);
  EXPECT_EQ(splits.test.count, 10);
}

TEST(ReadIdxSet, SkipDropsTheImageWithTheBadLabelAndSaysSo) {
  const TestFolder folder;
  test::write_idx_set(folder, 2000, 10);
  Bytes labels = idx_labels(2000);
  labels[8 + 7] = std::byte{200};
  folder.write("train-labels-idx1-ubyte", labels);
  EXPECT_THROW(read_idx_set(folder.path(), "mnist"), DataError);
  const ImageSplits splits = read_idx_set(folder.path(), "mnist", BadData::Skip);
  EXPECT_EQ(splits.train.count, 1999);
  EXPECT_EQ(splits.train.pixels[784 * 7], 8);
  EXPECT_EQ(splits.train.labels[7], 8);
  ASSERT_EQ(splits.findings.size(), 1u);
  EXPECT_EQ(splits.findings[0].record, 7);
}

TEST(ReadIdxSet, SkipGivesUpWhenTooManyAreBad) {
  const TestFolder folder;
  test::write_idx_set(folder, 2000, 10);
  Bytes labels = idx_labels(2000);
  for (std::size_t i = 0; i < 3; ++i) labels[8 + i] = std::byte{200};
  folder.write("train-labels-idx1-ubyte", labels);
  EXPECT_THROW(read_idx_set(folder.path(), "mnist", BadData::Skip), DataError);
  EXPECT_EQ(read_idx_set(folder.path(), "mnist", {BadData::Skip, 0.01}).train.count, 1997);
}

TEST(ReadIdxSet, SkipKeepsWhatACutFileStillHolds) {
  const TestFolder folder;
  test::write_idx_set(folder, 2000, 10);
  Bytes images = idx_images(2000);
  images.erase(images.end() - 100, images.end());
  folder.write("train-images-idx3-ubyte", images);
  EXPECT_EQ(read_idx_set(folder.path(), "mnist", BadData::Skip).train.count, 1999);
}

}  // namespace
}  // namespace triaccel
