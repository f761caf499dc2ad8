#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "triaccel/ops/compression/frequency_codec.h"
#include "triaccel/ops/compression/group_codec.h"
#include "triaccel/ops/compression/mask_codecs.h"
#include "triaccel/ops/compression/nonzero_codec.h"
#include "triaccel/ops/conv/max_pool.h"
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/ops/norm/channel_gate.h"
#include "triaccel/ops/tensors/bias.h"
#include "triaccel/ops/tensors/even_pixels.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

/// Maps of more than 2^31 elements: compared where an index of 32 bits would not reach, in the last
/// rows of the last sample.
class LargeMapsOnCuda : public testing::Test {
 protected:
  static constexpr std::int64_t kSamples = 3, kChannels = 64, kRows = 4096, kColumns = 2800;
  static_assert(kSamples * kChannels * kRows * kColumns > std::int64_t{1} << 31);

  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
    at::manual_seed(1);
    try {
      at::empty({std::int64_t{16} << 30}, options);  // what the largest of the tests takes
      map_ = at::randn({kSamples, kRows, kColumns, kChannels}, options).permute({0, 3, 1, 2});
    } catch (const c10::OutOfMemoryError&) {
      GTEST_SKIP() << "less than 32 GiB are free on the device";
    }
  }

  static at::Tensor tail(const at::Tensor& map, std::int64_t rows = 16) {
    return map.narrow(0, map.size(0) - 1, 1).narrow(2, map.size(2) - rows, rows);
  }
  /// Of the tail as a map of its own.
  static at::Tensor own_tail(const at::Tensor& map, std::int64_t rows = 16) {
    return tail(map, rows).clone(at::MemoryFormat::ChannelsLast);
  }
  static double worst_apart(const at::Tensor& one, const at::Tensor& other) {
    return (one.to(at::kFloat) - other.to(at::kFloat)).abs().max().item<double>();
  }

  at::Tensor map_;  // BF16, channels-last
};

TEST_F(LargeMapsOnCuda, TakeABias) {
  const at::Tensor bias = at::randn({kChannels}, map_.options().dtype(at::kFloat));
  const at::Tensor expected = own_tail(map_);
  add_bias(expected, bias);
  add_bias(map_, bias);
  EXPECT_TRUE(at::equal(tail(map_), expected));
  map_.zero_();
  tail(map_, 1).fill_(1);
  EXPECT_TRUE(at::equal(bias_gradient(map_), at::full_like(bias, kColumns)));
}

TEST_F(LargeMapsOnCuda, ArePooled) {
  const PoolGeometry pairs;
  const Maxima all = max_pool(map_, pairs), last = max_pool(own_tail(map_), pairs);
  EXPECT_TRUE(at::equal(tail(all.values, 8), last.values));
  const at::Tensor gradient = max_pool_gradient(all.values, all.taps, map_.sizes(), pairs);
  EXPECT_TRUE(at::equal(tail(gradient),
                        max_pool_gradient(last.values, last.taps, tail(map_).sizes(), pairs)));
}

TEST_F(LargeMapsOnCuda, AreThinnedOut) {
  const at::Tensor even = even_pixels(map_);
  EXPECT_TRUE(at::equal(tail(even, 8), even_pixels(own_tail(map_))));
  const at::Tensor spread = scatter_even_pixels(even, map_.sizes());
  EXPECT_TRUE(at::equal(tail(spread),
                        scatter_even_pixels(even_pixels(own_tail(map_)), tail(map_).sizes())));
}

TEST_F(LargeMapsOnCuda, AreCast) {
  const at::Tensor wide = scaled_cast(map_, at::kFloat, {}, 0, false, false);
  EXPECT_TRUE(at::equal(tail(wide), tail(map_).to(at::kFloat)));
}

TEST_F(LargeMapsOnCuda, AreGated) {
  const at::Tensor gates = at::rand({kSamples, kChannels, 1, 1}, map_.options());
  const at::Tensor last = gates.narrow(0, kSamples - 1, 1);
  EXPECT_TRUE(at::equal(tail(gate_channels(map_, gates)), gate_channels(own_tail(map_), last)));
  map_.zero_();
  tail(map_, 1).fill_(1);
  const at::Tensor mean = pixel_mean(map_).to(at::kDouble).narrow(0, kSamples - 1, 1);
  EXPECT_LT((mean * kRows - 1).abs().max().item<double>(), 0.01);
}

TEST_F(LargeMapsOnCuda, AreNormalised) {
  const auto row = [&] { return at::empty({kChannels}, map_.options().dtype(at::kFloat)); };
  const NormStatistics saved{row(), row()};
  const NormParameters how{.weight = row().fill_(2), .bias = row().fill_(0.5)};
  tail(map_, kRows).add_(3);  // a whole sample apart from the others
  const at::Tensor output = at::empty_like(map_), gates = empty_relu_mask(map_);
  batch_norm_train(output, saved, map_, how, {{}, Activation::Relu, gates});
  EXPECT_LT((saved.mean - 1).abs().max().item<double>(), 0.01) << "a third is 3, the rest 0";
  const auto by_channel = [](const at::Tensor& values) { return values.view({1, -1, 1, 1}); };
  const auto normed = [&](const at::Tensor& map) {
    return (map.to(at::kFloat) - by_channel(saved.mean)) * by_channel(saved.inverse_deviation);
  };
  const at::Tensor expected = (2 * normed(tail(map_)) + 0.5).relu();
  EXPECT_LT(worst_apart(tail(output), expected), 0.05);
  // A gradient in the last row alone: its mean over the map is next to nothing.
  const at::Tensor arriving = at::zeros_like(map_);
  tail(arriving, 1).fill_(1);
  const NormGradients gradients =
      batch_norm_backward({arriving, {}, map_, gates, saved, how, Activation::Relu, false, true});
  const at::Tensor open = (tail(output, 1) > 0).to(at::kFloat);
  EXPECT_LT(worst_apart(tail(gradients.input, 1), 2 * by_channel(saved.inverse_deviation) * open),
            0.02);
  EXPECT_LT((gradients.bias - open.sum({0, 2, 3})).abs().max().item<double>(), 0.5);
}

TEST_F(LargeMapsOnCuda, AreEncoded) {
  const auto decodes = [&](const at::Tensor& decoded, double worst) {
    EXPECT_LT(worst_apart(tail(decoded), tail(map_)), worst);
  };
  const kernels::GroupCoding groups{.eighths = 64};
  decodes(decode_groups(encode_groups(map_, groups), map_.sizes(), map_.strides(), at::kBFloat16,
                        groups),
          0.1);
  const FrequencyCoding blocks{.block = 8, .band_eighths = {64, 64, 64, 64, 64}};
  decodes(decode_frequency(encode_frequency(map_, blocks), map_.sizes(), map_.strides(),
                           at::kBFloat16, blocks),
          0.2);
  map_.relu_();
  const kernels::NonZeroCoding nonzeros{.eighths = 64};
  decodes(decode_nonzeros(encode_nonzeros(map_, nonzeros), map_.sizes(), map_.strides(),
                          at::kBFloat16, nonzeros),
          0.1);
  const at::Tensor positive =
      decode_mask(encode_mask(map_, kernels::MaskTest::Positive), map_.sizes(), map_.strides());
  EXPECT_TRUE(at::equal(tail(positive), tail(map_) > 0));
}

}  // namespace
}  // namespace triaccel
