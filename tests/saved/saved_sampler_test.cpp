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

TEST(SavedSampler, CollectsFloatsAndHandsAllOn) {
  const SlimRun run("resnet18");
  const SavedCensus census = census_of([&] { return run.forward(); }, run.constants, 2);
  SavedProfile profile(run.constants);
  SavedSampler sampler(profile);
  at::Tensor logits;
  {
    const SavedTensorScope scope(sampler);
    logits = run.forward();
  }
  EXPECT_EQ(profile.census(logits, 2), census);
  const std::vector<SavedSample> samples = sampler.take_samples();
  const auto floats = std::ranges::count_if(
      census.entries, [](const SavedEntry& entry) { return entry.type == ElementType::F32; });
  ASSERT_EQ(std::ssize(samples), floats);
  EXPECT_EQ(samples[0].entry, 0);
  EXPECT_EQ(samples[0].sizes, run.input.sizes().vec());
  EXPECT_EQ(samples[0].values[5], run.input.flatten()[5].item<float>());
}

}  // namespace
}  // namespace triaccel
