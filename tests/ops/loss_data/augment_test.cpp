#include "triaccel/ops/loss_data/augment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

const at::Tensor kEpoch = at::tensor({std::int64_t{0}});

TEST(AugmentOp, EqualsTorchOnAnUnchangedImage) {
  const at::Tensor images = at::randint(256, {20, 3, 6, 5}, at::kByte);
  const at::Tensor ids = at::tensor({std::int64_t{3}, std::int64_t{19}, std::int64_t{3}});
  const at::Tensor mean = at::tensor({0.4914f, 0.4822f, 0.4465f}).view({1, 3, 1, 1});
  const at::Tensor std = at::tensor({0.2470f, 0.2435f, 0.2616f}).view({1, 3, 1, 1});
  at::Tensor output = at::empty({3, 3, 6, 5});
  augment(output, images, ids, kEpoch, (1 / (255 * std)).flatten(), (-mean / std).flatten(), {});
  const at::Tensor expected = (images.index_select(0, ids).to(at::kFloat) / 255 - mean) / std;
  EXPECT_TRUE(at::allclose(output, expected, 1e-6, 1e-6));
}

TEST(AugmentOp, GivesTheSameImageInEitherMemoryFormat) {
  const at::Tensor images = at::randint(256, {9, 3, 8, 8}, at::kByte);
  const at::Tensor ids = at::arange(9);
  const at::Tensor scale = at::rand({3}), shift = at::rand({3});
  at::Tensor planes = at::empty({9, 3, 8, 8});
  at::Tensor pixels = at::empty({9, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  const kernels::Augmentation params = {.seed = 4, .padding = 3, .flip = true};
  augment(planes, images, ids, kEpoch, scale, shift, params);
  augment(pixels, images, ids, kEpoch, scale, shift, params);
  EXPECT_TRUE(at::equal(planes, pixels));
}

TEST(AugmentOp, NamesAWrongArgument) {
  const at::Tensor images = at::zeros({4, 1, 2, 2}, at::kByte);
  const at::Tensor one = at::ones({1}), id = at::tensor({std::int64_t{0}});
  at::Tensor output = at::empty({1, 1, 2, 2});
  EXPECT_THROW(augment(output, images.to(at::kFloat), id, kEpoch, one, one, {}), UsageError);
  EXPECT_THROW(augment(output, images, id + 4, kEpoch, one, one, {}), UsageError);
  EXPECT_THROW(augment(output, images, id, kEpoch, at::ones({3}), one, {}), UsageError);
  EXPECT_THROW(augment(output, images, id, kEpoch, one, one, {.padding = -1}), UsageError);
  at::Tensor small = at::empty({1, 1, 2, 1});
  EXPECT_THROW(augment(small, images, id, kEpoch, one, one, {}), UsageError);
}

TEST(GatherLabelsOp, PicksTheLabelsOfTheSamples) {
  at::Tensor output = at::empty({2}, at::kLong);
  gather_labels(output, at::tensor({5, 6, 7}, at::kByte), at::tensor({2, 0}, at::kLong));
  EXPECT_TRUE(at::equal(output, at::tensor({7, 5}, at::kLong)));
}

}  // namespace
}  // namespace triaccel
