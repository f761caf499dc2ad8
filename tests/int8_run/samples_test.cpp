#include "triaccel/int8_run/samples.h"

#include <gtest/gtest.h>

#include "triaccel/int8/training/state.h"

namespace triaccel {
namespace {

TEST(Int8Samples, HalvesPixelsAndPutsChannelsLast) {
  const ImageSet set{.count = 1,
                     .channels = 2,
                     .height = 1,
                     .width = 2,
                     .classes = 4,
                     .pixels = {0, 255, 10, 11},
                     .labels = {3}};
  const Int8Samples samples = int8_images(set);
  EXPECT_EQ(samples.mantissas, (std::vector<std::int8_t>{0, 5, 127, 5}));
  EXPECT_EQ(samples.labels, std::vector<std::int32_t>{3});
  EXPECT_EQ(samples.exponent, int8::kPixelExponent);
}

TEST(Int8Samples, RoundsCoordinatesToTheirGridAlikeOnBothSides) {
  const PointSet set{.count = 1,
                     .points = 2,
                     .classes = 1,
                     .coordinates = {0, 1023, 511, 512, 256, 767},
                     .labels = {0}};
  EXPECT_EQ(int8_clouds(set).mantissas, (std::vector<std::int8_t>{-127, 0, -63, 127, 0, 63}));
}

TEST(Int8Batch, GathersSamplesInTheOrderAskedFor) {
  const Int8Samples samples{
      .count = 3, .inputs = 2, .mantissas = {1, 2, 3, 4, 5, 6}, .labels = {7, 8, 9}};
  Int8Batch batch;
  const int8::Batch gathered = batch.gather(samples.reader(), std::vector<std::int64_t>{2, 0});
  EXPECT_EQ(std::vector<std::int8_t>(gathered.inputs, gathered.inputs + 4),
            (std::vector<std::int8_t>{5, 6, 1, 2}));
  EXPECT_EQ(std::vector<std::int32_t>(gathered.labels, gathered.labels + 2),
            (std::vector<std::int32_t>{9, 7}));
}

}  // namespace
}  // namespace triaccel
