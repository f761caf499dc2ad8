#include "triaccel/data/load_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "triaccel/base/error.h"
#include "triaccel/data/data_files.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/data/image_data.h"
#include "triaccel/data/text_data.h"

namespace triaccel {
namespace {

const c10::Device kCpu(c10::kCPU);

at::Tensor ids(std::initializer_list<std::int64_t> values) {
  return ids_on_device(std::vector<std::int64_t>(values), kCpu);
}

TEST(LoadData, HoldsOutTheSamplesItSays) {
  const LoadedData data = load_data({.name = "synthetic", .validation_samples = 96}, kCpu);
  EXPECT_EQ(data.validation_ids.size(), 96u);
  EXPECT_EQ(data.training_ids.size(), 4000u);
  std::set<std::int64_t> all(data.training_ids.begin(), data.training_ids.end());
  all.insert(data.validation_ids.begin(), data.validation_ids.end());
  EXPECT_EQ(all.size(), 4096u);
}

TEST(LoadData, NamesTheNearestSetForATypo) {
  try {
    load_data({.name = "cifar11"}, kCpu);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'cifar10'"), std::string::npos);
  }
}

TEST(LoadData, RefusesToHoldOutEverything) {
  EXPECT_THROW(load_data({.name = "synthetic", .validation_samples = 4096}, kCpu), UsageError);
}

TEST(SyntheticImages, AreTheSameForTheSameSeed) {
  const SyntheticOptions options{.train_count = 20, .test_count = 10, .seed = 4};
  EXPECT_EQ(synthetic_images(options).train.pixels, synthetic_images(options).train.pixels);
  EXPECT_NE(synthetic_images(options).train.pixels,
            synthetic_images({.train_count = 20, .test_count = 10, .seed = 5}).train.pixels);
}

TEST(ImageData, NormalisesToZeroMeanAndUnitVariance) {
  const LoadedData data = load_data({.name = "synthetic"}, kCpu);
  const Batch batch = data.train->gather(at::arange(4096), {});
  EXPECT_NEAR(batch.inputs.mean().item<float>(), 0.0f, 1e-3f);
  EXPECT_NEAR(batch.inputs.std().item<float>(), 1.0f, 1e-2f);
}

TEST(ImageData, GivesTheSamePixelsInAnyBatchAndOthersNextEpoch) {
  const LoadedData data = load_data({.name = "synthetic"}, kCpu);
  const GatherOptions how{.augment = true, .epoch = 3, .seed = 7};
  data.train->enter_epoch(how);
  const at::Tensor many = data.train->gather(ids({5, 900, 17}), how).inputs;
  const at::Tensor one = data.train->gather(ids({17}), how).inputs;
  EXPECT_TRUE(at::equal(many[2], one[0]));
  const at::Tensor plain = data.train->gather(at::arange(64), {}).inputs;
  const at::Tensor augmented = data.train->gather(at::arange(64), how).inputs;
  EXPECT_FALSE(at::equal(plain, augmented));
  GatherOptions later = how;
  later.epoch = 4;
  data.train->enter_epoch(later);
  EXPECT_FALSE(at::equal(data.train->gather(at::arange(64), later).inputs, augmented));
}

TEST(ImageData, KeepsValuesInEitherMemoryOrderAndResizes) {
  const LoadedData rows = load_data({.name = "synthetic"}, kCpu);
  const LoadedData channels = load_data({.name = "synthetic", .channels_last = true}, kCpu);
  const at::Tensor a = rows.test->gather(ids({1, 2}), {}).inputs;
  const at::Tensor b = channels.test->gather(ids({1, 2}), {}).inputs;
  EXPECT_TRUE(b.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(a, b));
  const LoadedData large = load_data({.name = "synthetic", .image_size = 48}, kCpu);
  EXPECT_EQ(large.test->gather(ids({1}), {}).inputs.sizes(),
            (std::vector<std::int64_t>{1, 3, 48, 48}));
  EXPECT_EQ(large.shape.image_size, 48);
}

TEST(TextData, TargetsAreTheNextTokens) {
  std::vector<std::uint8_t> tokens(100);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint8_t>(i);
  const TextData data(tokens, 10, kCpu);
  EXPECT_EQ(data.size(), 8);
  const Batch batch = data.gather(ids({0, 7}), {});
  EXPECT_TRUE(at::equal(batch.inputs[1], at::arange(70, 80)));
  EXPECT_TRUE(at::equal(batch.targets, batch.inputs + 1));
}

TEST(TextData, ShiftsAllWindowsOfAnEpochTogether) {
  std::vector<std::uint8_t> tokens(100);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint8_t>(i);
  const TextData data(tokens, 10, kCpu);
  std::set<std::int64_t> shifts;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const GatherOptions how{.augment = true, .epoch = epoch, .seed = 3};
    data.enter_epoch(how);
    const Batch shifted = data.gather(ids({0, 7}), how);
    EXPECT_LE(shifted.targets.max().item<std::int64_t>(), 99);
    EXPECT_TRUE(at::equal(shifted.targets, shifted.inputs + 1));
    EXPECT_TRUE(at::equal(shifted.inputs[1], shifted.inputs[0] + 70));
    shifts.insert(shifted.inputs[0][0].item<std::int64_t>());
  }
  EXPECT_GT(shifts.size(), 3u);
}

TEST(TextData, RejectsATextShorterThanAWindow) {
  EXPECT_THROW(TextData(std::vector<std::uint8_t>(12), 10, kCpu), UsageError);
}

TEST(EpochOrder, FollowsTheSampler) {
  Sampler sampler(shuffled_numbers(10, 1, 1), 5);
  EpochOrder order(kCpu);
  for (int step = 0; step < 6; ++step) {
    const auto host = sampler.upcoming(4);
    EXPECT_TRUE(at::equal(order.upcoming(sampler, 4), ids_on_device(host, kCpu)));
    sampler.take(static_cast<std::int64_t>(host.size()));
  }
}

}  // namespace
}  // namespace triaccel
