#include "triaccel/formats/point_cloud.h"

#include <gtest/gtest.h>

#include "tests/formats/sample_files.h"

namespace triaccel {
namespace {

using test::Bytes;
using test::bytes_of;
using test::point_clouds;
using test::point_labels;
using test::TestFolder;

const std::vector<std::string> kTwoNames = {"airplane", "bathtub"};

TEST(ReadPointClouds, ReadsBothSplits) {
  const TestFolder folder;
  test::write_point_set(folder);
  const PointSplits splits = read_point_clouds(folder.path());
  EXPECT_EQ(splits.train.count, 4);
  EXPECT_EQ(splits.train.points, 1024);
  EXPECT_EQ(splits.train.classes, 2);
  EXPECT_EQ(splits.train.class_names, kTwoNames);
  ASSERT_EQ(splits.train.coordinates.size(), 4u * 3 * 1024);
  EXPECT_EQ(splits.train.coordinates[3 * 1024 * 2 + 1023], 1023);  // x of cloud 2
  EXPECT_EQ(splits.train.coordinates[3 * 1024 * 2 + 1024], 2);     // its y
  EXPECT_EQ(splits.train.labels, (std::vector<std::uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(splits.test.count, 2);
  EXPECT_TRUE(splits.findings.empty());
}

TEST(ParsePointSet, EveryTruncationOfTheCoordinatesIsATypedError) {
  const Bytes clouds = point_clouds(2), labels = point_labels(2);
  for (std::size_t n = 0; n < clouds.size(); ++n) {
    DefectLog log;
    EXPECT_THROW(parse_point_set(std::span(clouds).first(n), "c", labels, "l", kTwoNames, log),
                 DataError)
        << n;
  }
}

TEST(ParsePointSet, EveryTruncationOfTheLabelsIsATypedError) {
  const Bytes clouds = point_clouds(3), labels = point_labels(3);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    DefectLog log;
    EXPECT_THROW(parse_point_set(clouds, "c", std::span(labels).first(n), "l", kTwoNames, log),
                 DataError)
        << n;
  }
}

TEST(ParsePointSet, SkipDropsACloudOutsideTheSphere) {
  Bytes clouds = point_clouds(3);
  clouds[6144 + 1] = std::byte{0xff};
  DefectLog log({BadData::Skip, 0.5});
  const PointSet set =
      parse_point_set(clouds, "c", bytes_of(std::string_view("\0\1\1", 3)), "l", kTwoNames, log);
  EXPECT_EQ(set.count, 2);
  EXPECT_EQ(set.coordinates.size(), 2u * 3 * 1024);
  EXPECT_EQ(set.coordinates[3 * 1024 + 1024], 2);
}

TEST(ParseClassNames, TakesAnyLineEnd) {
  DefectLog log;
  EXPECT_EQ(parse_class_names(bytes_of("airplane\r\nbathtub"), "n", log), kTwoNames);
}

TEST(ParseClassNames, RefusesBlankDoubleBinaryAndTooManyNames) {
  std::string many;
  for (int i = 0; i < 257; ++i) many += text("n", i, "\n");
  for (const std::string& names :
       {std::string("a\n\nb\n"), std::string("a\nb\na\n"), std::string("a\nb\x01\n"), many}) {
    DefectLog log;
    EXPECT_THROW(parse_class_names(bytes_of(names), "n", log), DataError);
  }
}

}  // namespace
}  // namespace triaccel
