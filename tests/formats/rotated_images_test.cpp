#include "triaccel/formats/image_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

ImageSet image_of(std::vector<std::uint8_t> pixels, std::int64_t height, std::int64_t width) {
  return {.count = 1,
          .channels = 1,
          .height = height,
          .width = width,
          .classes = 1,
          .pixels = std::move(pixels),
          .labels = {0}};
}

TEST(RotateImages, TurnsAQuarterCounterClockwise) {
  ImageSet set = image_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3);
  rotate_images(set, 90);
  EXPECT_EQ(set.pixels, (std::vector<std::uint8_t>{3, 6, 9, 2, 5, 8, 1, 4, 7}));
}

TEST(RotateImages, TurnsEvenSizesAboutTheMiddleOfFourPixels) {
  ImageSet set = image_of({10, 20, 30, 40}, 2, 2);
  rotate_images(set, 180);
  EXPECT_EQ(set.pixels, (std::vector<std::uint8_t>{40, 30, 20, 10}));
}

TEST(RotateImages, LeavesImagesAsTheyAreWithoutAnAngleAndAfterAFullTurn) {
  std::vector<std::uint8_t> pixels(2 * 28 * 28);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  for (const double degrees : {0.0, 360.0, -360.0}) {
    ImageSet set = image_of(pixels, 28, 28);
    rotate_images(set, degrees);
    EXPECT_EQ(set.pixels, pixels) << degrees;
  }
}

TEST(RotateImages, TurnsEachImageAndChannelAlone) {
  ImageSet set = image_of({1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8}, 2, 2);
  set.channels = 3;
  rotate_images(set, 180);
  EXPECT_EQ(set.pixels, (std::vector<std::uint8_t>{4, 3, 2, 1, 0, 0, 0, 0, 8, 7, 6, 5}));
}

TEST(RotateImages, MixesNeighboursAndTakesBlackFromBeyondTheEdges) {
  ImageSet set = image_of(std::vector<std::uint8_t>(9, 200), 3, 3);
  rotate_images(set, 45);
  EXPECT_EQ(set.pixels[4], 200);  // the centre stays
  for (const std::size_t edge : {1u, 3u, 5u, 7u}) EXPECT_EQ(set.pixels[edge], 200);
  // A corner comes from sqrt(2) off the centre along an axis: 0.41 pixels beyond the edge.
  for (const std::size_t corner : {0u, 2u, 6u, 8u}) EXPECT_NEAR(set.pixels[corner], 117, 2);
}

TEST(RotateImages, KeepsTheLightOfABlobInTheMiddle) {
  std::vector<std::uint8_t> pixels(28 * 28);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double y = static_cast<double>(i / 28) - 15, x = static_cast<double>(i % 28) - 12;
    pixels[i] = static_cast<std::uint8_t>(250 * std::exp(-(x * x + y * y) / 20));
  }
  ImageSet set = image_of(pixels, 28, 28);
  rotate_images(set, 30);
  const double before = std::accumulate(pixels.begin(), pixels.end(), 0.0);
  const double after = std::accumulate(set.pixels.begin(), set.pixels.end(), 0.0);
  EXPECT_NEAR(after / before, 1, 0.01);
}

TEST(RotateImages, RejectsAnAngleBeyondAFullTurn) {
  ImageSet set = image_of({0}, 1, 1);
  EXPECT_THROW(rotate_images(set, 361), UsageError);
}

}  // namespace
}  // namespace triaccel
