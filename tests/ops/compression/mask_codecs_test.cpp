#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "triaccel/base/error.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/ops/compression/mask_codecs.h"

namespace triaccel {
namespace {

using kernels::MaskTest;

/// Numbers, zeros of both signs, NaNs and infinities, in every type and several memory orders.
std::vector<at::Tensor> awkward_tensors() {
  at::manual_seed(4);
  const at::Tensor map = at::randn({3, 5, 7, 6}), dice = at::rand_like(map);
  map.masked_fill_(dice < 0.2, 0.0).masked_fill_(dice > 0.9, -0.0);
  map.masked_fill_((dice > 0.4) & (dice < 0.45), std::numeric_limits<float>::quiet_NaN());
  map.masked_fill_((dice > 0.5) & (dice < 0.55), std::numeric_limits<float>::infinity());
  return {map,
          map.contiguous(at::MemoryFormat::ChannelsLast),
          map.permute({3, 1, 0, 2}),
          map.to(at::kBFloat16),
          map.to(at::kHalf),
          at::randn({}),
          at::randn({0, 4})};
}

TEST(BitMaskOp, LetsReluBackwardGiveTheSameBits) {
  for (const at::Tensor& input : awkward_tensors()) {
    const at::Tensor result = input.relu(), gradient = at::randn_like(result);
    const at::Tensor mask =
        decode_mask(encode_mask(result, MaskTest::Positive), result.sizes(), result.strides());
    EXPECT_EQ(mask.scalar_type(), at::kBool);
    EXPECT_EQ(mask.strides(), result.strides());
    EXPECT_TRUE(at::equal(at::threshold_backward(gradient, mask, 0),
                          at::threshold_backward(gradient, result, 0)));
    EXPECT_TRUE(
        at::equal(encode_mask(result, MaskTest::NotZero), encode_mask(result, MaskTest::Positive)));
  }
}

TEST(BitMaskOp, GivesDropoutsMasksBack) {
  const at::Tensor kept = at::rand({4, 33, 9}) < 0.7;
  EXPECT_TRUE(at::equal(
      decode_mask(encode_mask(kept, MaskTest::NotZero), kept.sizes(), kept.strides()), kept));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor scaled = kept.to(type).div_(0.7);
    const at::Tensor value = scaled.max().to(at::kFloat);
    const at::Tensor words = encode_mask(scaled, MaskTest::NotZero);
    EXPECT_EQ(words.nbytes(), static_cast<std::size_t>(mask_bytes(scaled.numel())));
    EXPECT_TRUE(at::equal(decode_mask(words, scaled.sizes(), scaled.strides(), type,
                                      {.from_memory = value.const_data_ptr<float>()}),
                          scaled));
  }
}

TEST(BitMaskOp, RejectsWhatHasNoMask) {
  const at::Tensor values = at::randn({8, 8});
  EXPECT_THROW(encode_mask(values.slice(1, 0, 8, 2), MaskTest::Positive), UsageError);
  EXPECT_THROW(encode_mask(values.to(at::kLong), MaskTest::Positive), UsageError);
  EXPECT_THROW(encode_mask({}, MaskTest::Positive), UsageError);
  const at::Tensor words = encode_mask(values, MaskTest::Positive);
  EXPECT_THROW(decode_mask(words, {8, 9}, {9, 1}), UsageError);
  EXPECT_THROW(decode_mask(words, {8, 8}, {16, 1}), UsageError);
  EXPECT_THROW(decode_mask(words.to(at::kLong), {8, 8}, {8, 1}), UsageError);
}

TEST(WindowCodecOp, LetsPoolingBackwardGiveTheSameBits) {
  at::manual_seed(5);
  const WindowGeometry geometries[] = {
      {.map = {8, 10}},
      {.map = {9, 7}, .window = {3, 3}, .padding = {1, 1}},
      {.map = {13, 11}, .window = {3, 2}, .stride = {1, 3}, .padding = {1, 0}},
      {.map = {14, 15}, .window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {2, 3}},
      {.map = {12, 12}, .window = {5, 5}, .stride = {2, 2}, .padding = {2, 2}}};
  for (const WindowGeometry& g : geometries)
    for (const bool ceil_mode : {false, true})
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const at::Tensor map = at::randn({2, 6, g.map[0], g.map[1]}).contiguous(format);
        const auto [values, indices] =
            at::max_pool2d_with_indices(map, g.window, g.stride, g.padding, g.dilation, ceil_mode);
        const at::Tensor taps = encode_windows(indices, g);
        EXPECT_EQ(taps.nbytes(), static_cast<std::size_t>(
                                     window_bytes(indices.numel(), g.window[0] * g.window[1])));
        const at::Tensor found = decode_windows(taps, indices.sizes(), indices.strides(), g);
        EXPECT_TRUE(at::equal(found, indices)) << g.window[0] << " x " << g.window[1];
        EXPECT_EQ(found.strides(), indices.strides());
        const auto gradient = [&](const at::Tensor& places) {
          return at::max_pool2d_with_indices_backward(values, map, g.window, g.stride, g.padding,
                                                      g.dilation, ceil_mode, places);
        };
        EXPECT_TRUE(at::equal(gradient(found), gradient(indices)));
      }
}

TEST(WindowCodecOp, TakesNoImagesAndOneImage) {
  const WindowGeometry geometry = {.map = {4, 4}};
  for (const at::Tensor& map : {at::randn({0, 3, 4, 4}), at::randn({3, 4, 4})}) {
    const at::Tensor indices = std::get<1>(at::max_pool2d_with_indices(map, {2, 2}));
    EXPECT_TRUE(at::equal(decode_windows(encode_windows(indices, geometry), indices.sizes(),
                                         indices.strides(), geometry),
                          indices));
  }
}

TEST(WindowCodecOp, RejectsWhatItHasNoCodesFor) {
  const at::Tensor indices = at::zeros({2, 3, 4, 4}, at::kLong);
  const WindowGeometry geometry = {.map = {8, 8}};
  EXPECT_THROW(encode_windows({}, geometry), UsageError);
  EXPECT_THROW(encode_windows(indices.to(at::kInt), geometry), UsageError);
  EXPECT_THROW(encode_windows(indices.permute({0, 1, 3, 2}), geometry), UsageError);
  EXPECT_THROW(encode_windows(indices, {.map = {99, 99}, .window = {17, 17}}), UsageError);
  EXPECT_THROW(encode_windows(indices, {.map = {8, 8}, .stride = {0, 2}}), UsageError);
  const at::Tensor taps = encode_windows(indices, geometry);
  EXPECT_THROW(decode_windows(taps, {2, 3, 4, 5}, {60, 20, 5, 1}, geometry), UsageError);
}

}  // namespace
}  // namespace triaccel
