#include "triaccel/int8/training/perturbation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "triaccel/int8/network.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8 {
namespace {

TEST(DrawHalfWords, EqualsElementByElementDraws) {
  std::vector<std::uint16_t> drawn(kDrawnTogether);
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{1} << 36}) {
    draw_half_words(77, first, drawn.data());
    for (std::uint64_t i = 0; i < kDrawnTogether; ++i)
      ASSERT_EQ(drawn[i], random_half_word(77, first + i)) << first << " + " << i;
  }
}

TEST(RandomKey, DiffersBetweenStepsAndUses) {
  EXPECT_NE(random_key(1, RandomStream::Perturbation, 0),
            random_key(1, RandomStream::Perturbation, 1));
  EXPECT_NE(random_key(1, RandomStream::Perturbation, 0),
            random_key(1, RandomStream::SignUpdate, 0));
}

// 30 degrees of freedom: a fair draw passes 70 once in 20,000 times; the draw is fixed.
TEST(Noise, IsUniformExceptForItsZeros) {
  for (const std::uint32_t zero_share : {0u, 21627u, 60000u}) {
    const Noise noise = make_noise({.reach = 15, .zero_share = zero_share});
    constexpr int kDraws = 2000000;
    std::vector<double> hits(31);
    std::uint16_t drawn[kDrawnTogether];
    for (int i = 0; i < kDraws; i += kDrawnTogether) {
      draw_half_words(3, static_cast<std::uint64_t>(i), drawn);
      for (const std::uint16_t random : drawn) {
        const std::int32_t z = noise_value(noise, random);
        ASSERT_TRUE(z >= -15 && z <= 15);
        hits[static_cast<std::size_t>(z + 15)] += 1;
      }
    }
    // Counted over the 65,536 values of the draw, which need not divide into equal parts.
    std::vector<double> ways(31);
    for (std::uint32_t random = 0; random < 65536; ++random)
      ways[static_cast<std::size_t>(noise_value(noise, static_cast<std::uint16_t>(random)) + 15)]++;
    const double expected_zeros = zero_share + (65536.0 - zero_share) / 31;
    EXPECT_NEAR(ways[15], expected_zeros, 2 + (65536.0 - zero_share) / 31 / 100);
    double total = 0;
    for (const double hit : hits) total += hit;
    double chi = 0;
    for (std::size_t k = 0; k < 31; ++k) {
      const double expected = total * ways[k] / 65536.0;
      chi += (hits[k] - expected) * (hits[k] - expected) / expected;
    }
    EXPECT_LT(chi, 70) << "zero share " << zero_share;
  }
}

TEST(PackPerturbedRows, AddsAndSubtractsTheSameNoiseAndPadsWithZeros) {
  constexpr std::int32_t kRows = 13, kDepth = 37;
  std::vector<std::int8_t> weights(kRows * kDepth);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<std::int8_t>(static_cast<int>(i * 53 % 255) - 127);
  const std::vector<std::int8_t> stored = weights;
  const Noise noise = make_noise({.reach = 15});
  const std::int32_t stride = padded_depth(kDepth);
  std::vector<std::int8_t> plus(kRows * stride, 99), minus(kRows * stride, 99);
  const std::int64_t index = 1003;  // not a multiple of eight
  pack_perturbed_rows({.weights = weights.data(), .index = index, .rows = kRows, .depth = kDepth},
                      5, noise, plus.data(), minus.data());
  EXPECT_EQ(weights, stored);
  for (std::int32_t row = 0; row < kRows; ++row) {
    for (std::int32_t k = 0; k < stride; ++k) {
      const std::int8_t p = plus[static_cast<std::size_t>(row * stride + k)];
      const std::int8_t m = minus[static_cast<std::size_t>(row * stride + k)];
      if (k >= kDepth) {
        ASSERT_TRUE(p == 0 && m == 0);
        continue;
      }
      const std::int32_t w = weights[static_cast<std::size_t>(row * kDepth + k)];
      const auto bits = random_half_word(5, static_cast<std::uint64_t>(index + row * kDepth + k));
      const std::int32_t z = noise_value(noise, static_cast<std::uint16_t>(bits));
      ASSERT_EQ(p, std::clamp(w + z, -127, 127)) << row << ", " << k;
      ASSERT_EQ(m, std::clamp(w - z, -127, 127)) << row << ", " << k;
    }
  }
}

}  // namespace
}  // namespace triaccel::int8
