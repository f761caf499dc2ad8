#include "triaccel/int8/training/cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace triaccel::int8 {
namespace {

constexpr double kUnit = 65536.0;  // Q16

/// The loss in bits from floating point, with the same limits.
double exact_loss(const std::int32_t* logits, int classes, int exponent, int label) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kMost = 1073741824.0;  // kLargestLogit in bits
  double t[16];
  double top = -kMost;
  for (int j = 0; j < classes; ++j) {
    t[j] = std::clamp(std::ldexp(logits[j] * kLog2E, exponent), -kMost, kMost);
    top = std::max(top, t[j]);
  }
  double sum = 0;
  for (int j = 0; j < classes; ++j) sum += t[j] == top ? 1.0 : std::exp2(t[j] - top);
  return std::min(top - t[label] + std::log2(sum), 1048576.0);
}

struct Logits {
  std::int32_t values[10];
  int classes;
  int exponent;
  int label;
  std::int64_t loss() const { return cross_entropy(kLossTables, values, classes, exponent, label); }
  double exact() const { return exact_loss(values, classes, exponent, label); }
};

/// What an integer loss may be off by, in its units.
double bound(double exact_bits) {
  return static_cast<double>(kLossError) + std::ldexp(exact_bits * kUnit, -32);
}

Logits random_logits(std::uint64_t seed, std::uint64_t i, int classes, std::int32_t bits,
                     int exponent) {
  Logits logits = {.values = {}, .classes = classes, .exponent = exponent, .label = 0};
  for (int j = 0; j < classes; j += 4) {
    const RandomWords words = random_words(seed, i, static_cast<std::uint64_t>(j));
    for (int k = 0; k < 4 && j + k < classes; ++k)
      logits.values[j + k] = static_cast<std::int32_t>(words.words[k]) >> (32 - bits);
    if (j == 0) logits.label = static_cast<int>(words.words[0] % static_cast<unsigned>(classes));
  }
  return logits;
}

TEST(Exp2Falling, StartsAtOneAndNeverRises) {
  EXPECT_EQ(exp2_falling(kLossTables, 0), 1u << 30);
  std::uint32_t before = 1u << 30;
  for (std::int64_t drop = 0; drop < (std::int64_t{32} << 16); drop += 5) {
    const std::uint32_t now = exp2_falling(kLossTables, drop);
    ASSERT_LE(now, before) << drop;
    before = now;
  }
  EXPECT_EQ(exp2_falling(kLossTables, std::int64_t{1} << 45), 0u);
}

TEST(Exp2Falling, IsExactToNineteenBits) {
  for (std::int64_t drop = 0; drop < (std::int64_t{8} << 16); drop += 3) {
    const double exact = std::exp2(30.0 - static_cast<double>(drop) / kUnit);
    ASSERT_NEAR(exp2_falling(kLossTables, drop) / exact, 1.0, std::exp2(-19)) << drop;
  }
}

TEST(Log2Bits, IsExactAtPowersOfTwoAndNeverFalls) {
  for (int power = 0; power < 64; ++power)
    EXPECT_EQ(log2_bits(kLossTables, std::uint64_t{1} << power), std::int64_t{power} << 16);
  std::int64_t before = 0;
  for (std::uint64_t sum = std::uint64_t{1} << 30; sum < (std::uint64_t{3} << 30); sum += 9999) {
    const std::int64_t now = log2_bits(kLossTables, sum);
    ASSERT_GE(now, before) << sum;
    before = now;
  }
}

TEST(CrossEntropy, StaysWithinItsErrorBound) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const Logits logits =
        random_logits(1, i, 10, 8 + static_cast<int>(i % 20), -static_cast<int>(i % 24));
    const double exact = logits.exact();
    ASSERT_LT(std::abs(static_cast<double>(logits.loss()) - exact * kUnit), bound(exact)) << i;
  }
}

TEST(CrossEntropy, KeepsItsValueWhenMantissaAndExponentTradeABit) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    Logits logits = random_logits(2, i, 10, 20, -9);
    const std::int64_t loss = logits.loss();
    for (std::int32_t& value : logits.values) value *= 2;
    --logits.exponent;
    EXPECT_EQ(logits.loss(), loss);
  }
}

TEST(CrossEntropy, MovesByAUnitAtMostWhenAllLogitsMove) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    Logits logits = random_logits(3, i, 10, 12, -7);
    const std::int64_t loss = logits.loss();
    for (std::int32_t& value : logits.values) value += 777;
    EXPECT_LE(std::abs(logits.loss() - loss), 1);
  }
}

TEST(CrossEntropy, DoesNotDependOnTheOrderOfClasses) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    Logits logits = random_logits(4, i, 10, 12, -7);
    const std::int64_t loss = logits.loss();
    std::rotate(logits.values, logits.values + 3, logits.values + 10);
    logits.label = (logits.label + 7) % 10;
    EXPECT_EQ(logits.loss(), loss);
  }
}

// If the exact losses of two passes differ by more than the bound, the integer losses differ alike.
TEST(CrossEntropy, HasTheRightSignInAMillionBatches) {
  std::int64_t decided = 0;
  for (std::uint64_t i = 0; i < 1000000; ++i) {
    const int samples = 1 + static_cast<int>(i % 2);
    const std::uint32_t word = random_words(8, i).words[3];
    const int exponent =
        i % 8 == 0 ? static_cast<int>(word % 81) - 40 : -static_cast<int>(word % 16);
    const int bits = i % 16 == 1 ? 32 : 10;
    std::int64_t difference = 0;
    double exact = 0;
    double undecided = 0;
    for (int b = 0; b < samples; ++b) {
      Logits plus = random_logits(7, 2 * i + static_cast<std::uint64_t>(b), 3, bits, exponent);
      Logits minus = plus;  // the other pass: nearly the same logits
      minus.values[word >> 8 & 1] ^= static_cast<std::int32_t>(word >> 10 & 15);
      difference += plus.loss() - minus.loss();
      const double exact_plus = plus.exact(), exact_minus = minus.exact();
      exact += exact_plus - exact_minus;
      undecided += bound(exact_plus) + bound(exact_minus);
    }
    if (std::abs(exact) * kUnit <= undecided) continue;
    ++decided;
    ASSERT_TRUE(difference != 0 && (difference > 0) == (exact > 0)) << i;
  }
  EXPECT_GT(decided, 300000);
}

TEST(LossError, IsTheSoftmaxLessTheLabel) {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Logits logits = random_logits(9, i, 10, 10, -7);
    const LogitSummary summary = summarise_logits(kLossTables, logits.values, 10, logits.exponent);
    std::int8_t error[10];
    loss_error(kLossTables, summary, logits.values, 10, logits.exponent, logits.label, 3,
               static_cast<std::int64_t>(i), error);
    for (int j = 0; j < 10; ++j) {
      const double probability = std::exp2(-exact_loss(logits.values, 10, logits.exponent, j));
      const double wanted = 128.0 * (probability - (j == logits.label ? 1.0 : 0.0));
      EXPECT_NEAR(error[j], wanted, 2.1) << "sample " << i << ", class " << j;
    }
  }
}

TEST(LossError, IsUnbiased) {
  const std::int32_t logits[4] = {100, -20, 30, 7};
  const LogitSummary summary = summarise_logits(kLossTables, logits, 4, -6);
  double sums[4] = {};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    std::int8_t error[4];
    loss_error(kLossTables, summary, logits, 4, -6, 2, 11, i, error);
    for (int j = 0; j < 4; ++j) sums[j] += error[j];
  }
  for (int j = 0; j < 4; ++j) {
    const double wanted = 128.0 * (std::exp2(-exact_loss(logits, 4, -6, j)) - (j == 2 ? 1 : 0));
    EXPECT_NEAR(sums[j] / kDraws, wanted, 0.15) << j;
  }
}

}  // namespace
}  // namespace triaccel::int8
