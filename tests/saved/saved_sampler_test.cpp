#include "triaccel/saved/saved_sampler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/saved/saved_pass.h"

namespace triaccel {
namespace {

std::vector<std::int64_t> sampled_sizes(const std::vector<std::int64_t>& sizes) {
  return sample_of(torch::empty(sizes)).sizes().vec();
}

TEST(SampleOf, TakesWholeImagesWhereTheyFit) {
  EXPECT_EQ(sampled_sizes({4, 64, 8, 8}), (std::vector<std::int64_t>{4, 64, 8, 8}));
  EXPECT_EQ(sampled_sizes({128, 64, 32, 32}), (std::vector<std::int64_t>{1, 64, 32, 32}));
  EXPECT_EQ(sampled_sizes({128, 512, 4, 4}), (std::vector<std::int64_t>{8, 512, 4, 4}));
  EXPECT_EQ(sampled_sizes({1 << 20}), (std::vector<std::int64_t>{1 << 16}));
}

TEST(SampleOf, CutsLargeMapsIntoWholeBlocks) {
  EXPECT_EQ(sampled_sizes({256, 64, 112, 112}), (std::vector<std::int64_t>{1, 16, 56, 56}));
  EXPECT_EQ(sampled_sizes({64, 197, 768}), (std::vector<std::int64_t>{1, 197, 320}));
}

TEST(ChannelSampleOf, TakesAllPositionsOfAFewChannels) {
  const auto sizes = [](const std::vector<std::int64_t>& all) {
    return channel_sample_of(torch::empty(all)).sizes().vec();
  };
  EXPECT_EQ(sizes({4, 64, 8, 8}), (std::vector<std::int64_t>{4, 64, 8, 8}));
  EXPECT_EQ(sizes({11, 64, 32, 32}), (std::vector<std::int64_t>{11, 5, 32, 32}));
  EXPECT_EQ(sizes({11, 64, 112, 112}), (std::vector<std::int64_t>{11, 1, 112, 112}));
  EXPECT_EQ(sizes({11, 196, 768}), (std::vector<std::int64_t>{11, 196, 30}));
}

TEST(SavedSampler, CollectsTheAskedTensorsAndHandsAllOn) {
  const SlimRun run("resnet18");
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 2);
  SavedProfile profile(run.constants);
  SavedSampler sampler(profile, {2, 0});
  at::Tensor logits;
  {
    const SavedTensorScope scope(sampler);
    logits = run.forward();
  }
  EXPECT_EQ(profile.census(logits, 2), census);
  const std::vector<SavedSample> samples = sampler.take_samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].entry, 0);
  EXPECT_EQ(samples[0].sizes, run.input.sizes().vec());
  EXPECT_EQ(samples[0].values[5], run.input.flatten()[5].item<float>());
}

}  // namespace
}  // namespace triaccel
