#include "triaccel/kernels/loss_data/augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace triaccel::kernels {
namespace {

/// A set of 50 images of 2 channels, 5 x 7, every pixel different from its neighbours and not zero.
struct SmallSet {
  static constexpr std::int64_t kCount = 50, kChannels = 2, kHeight = 5, kWidth = 7;
  static constexpr std::int64_t kPixels = kChannels * kHeight * kWidth;
  std::vector<std::uint8_t> images = std::vector<std::uint8_t>(kCount * kPixels);
  std::vector<float> scale = {1, 1}, shift = {0, 0};

  SmallSet() {
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = static_cast<std::uint8_t>(1 + (i * 37) % 255);
  }
  std::vector<float> cut(const std::vector<std::int64_t>& ids, Augmentation params,
                         std::int64_t epoch = 0, bool channels_last = false) const {
    std::vector<float> output(ids.size() * kPixels);
    cpu::augment({.images = images.data(),
                  .sample_ids = ids.data(),
                  .epoch = &epoch,
                  .scale = scale.data(),
                  .shift = shift.data(),
                  .image_count = kCount,
                  .batch = static_cast<std::int64_t>(ids.size()),
                  .channels = kChannels,
                  .height = kHeight,
                  .width = kWidth},
                 params, channels_last, output.data());
    return output;
  }
  std::vector<std::int64_t> every_id() const {
    std::vector<std::int64_t> ids(kCount);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
};

const Augmentation kTraining = {.seed = 5, .padding = 2, .flip = true};

TEST(Augment, CopiesPixelsWhenSwitchedOff) {
  const SmallSet set;
  const std::vector<float> output = set.cut(set.every_id(), {.seed = 5});
  for (std::size_t i = 0; i < output.size(); ++i)
    ASSERT_EQ(output[i], static_cast<float>(set.images[i]));
}

TEST(Augment, ScalesAndShiftsEachChannel) {
  SmallSet set;
  set.scale = {0.5f, 0.25f};
  set.shift = {-1, 3};
  const std::vector<float> output = set.cut({4}, {});
  const std::uint8_t* image = set.images.data() + 4 * SmallSet::kPixels;
  EXPECT_EQ(output[0], static_cast<float>(image[0]) * 0.5f - 1);
  EXPECT_EQ(output[35], static_cast<float>(image[35]) * 0.25f + 3);
}

TEST(Augment, GivesASampleTheSamePixelsInAnyBatch) {
  const SmallSet set;
  const std::vector<float> all = set.cut(set.every_id(), kTraining, 3);
  const std::vector<float> few = set.cut({17, 3, 17}, kTraining, 3);
  for (std::size_t i = 0; i < SmallSet::kPixels; ++i) {
    EXPECT_EQ(few[i], all[17 * SmallSet::kPixels + i]);
    EXPECT_EQ(few[SmallSet::kPixels + i], all[3 * SmallSet::kPixels + i]);
    EXPECT_EQ(few[2 * SmallSet::kPixels + i], few[i]);
  }
}

TEST(Augment, ChangesWithEpochAndSeed) {
  const SmallSet set;
  const std::vector<float> base = set.cut(set.every_id(), kTraining, 0);
  EXPECT_EQ(base, set.cut(set.every_id(), kTraining, 0));
  EXPECT_NE(base, set.cut(set.every_id(), kTraining, 1));
  EXPECT_NE(base, set.cut(set.every_id(), {.seed = 6, .padding = 2, .flip = true}, 0));
}

TEST(Augment, WritesChannelsLastAsATransposition) {
  const SmallSet set;
  const std::vector<float> planes = set.cut({1, 2}, kTraining, 1);
  const std::vector<float> pixels = set.cut({1, 2}, kTraining, 1, true);
  const std::size_t plane = SmallSet::kHeight * SmallSet::kWidth;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t i = 0; i < plane; ++i)
        ASSERT_EQ(pixels[n * 2 * plane + i * 2 + c], planes[(n * 2 + c) * plane + i]);
}

TEST(Augment, MovesTheImageByTheDrawAndFillsWithTheZeroPixel) {
  SmallSet set;
  set.shift = {-8, -8};  // what a zero pixel becomes
  const std::int64_t height = SmallSet::kHeight, width = SmallSet::kWidth;
  for (std::int64_t id = 0; id < SmallSet::kCount; ++id) {
    const CropFlip draw = draw_crop_flip(kTraining, 2, id);
    const std::vector<float> output = set.cut({id}, kTraining, 2);
    for (std::int64_t row = 0; row < height; ++row)
      for (std::int64_t column = 0; column < width; ++column) {
        const std::int64_t y = row + draw.top;
        const std::int64_t x = (draw.mirror ? width - 1 - column : column) + draw.left;
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        const int pixel =
            inside ? set.images[static_cast<std::size_t>(id * SmallSet::kPixels + y * width + x)]
                   : 0;
        ASSERT_EQ(output[static_cast<std::size_t>(row * width + column)],
                  static_cast<float>(pixel - 8));
      }
  }
}

TEST(Augment, DrawsEveryPositionEquallyOftenAndFlipsHalf) {
  constexpr int draws = 90000;
  std::vector<int> tops(9), lefts(9);
  int mirrored = 0;
  for (std::int64_t id = 0; id < draws; ++id) {
    const CropFlip draw = draw_crop_flip({.seed = 1, .padding = 4, .flip = true}, 0, id);
    ++tops.at(static_cast<std::size_t>(draw.top + 4));
    ++lefts.at(static_cast<std::size_t>(draw.left + 4));
    mirrored += draw.mirror ? 1 : 0;
  }
  const double five_sigma = 5 * std::sqrt(draws * (1.0 / 9) * (8.0 / 9));
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(tops[i], draws / 9.0, five_sigma);
    EXPECT_NEAR(lefts[i], draws / 9.0, five_sigma);
  }
  EXPECT_NEAR(mirrored, draws / 2.0, 5 * std::sqrt(draws / 4.0));
}

TEST(Augment, AnswersAnUnknownSampleWithNaN) {
  const SmallSet set;
  for (const float pixel : set.cut({SmallSet::kCount}, kTraining)) ASSERT_TRUE(std::isnan(pixel));
}

TEST(GatherLabels, PicksTheLabelsOfTheSamples) {
  const std::vector<std::uint8_t> labels = {7, 255, 0};
  const std::vector<std::int64_t> ids = {2, 1, 1, 3};
  std::vector<std::int64_t> output(4);
  cpu::gather_labels(labels.data(), 3, ids.data(), 4, output.data());
  EXPECT_EQ(output, (std::vector<std::int64_t>{0, 255, 255, -1}));
}

}  // namespace
}  // namespace triaccel::kernels
