#include "triaccel/kernels/update/state_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/compression/codec_cases.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/update/state_codec_math.h"

namespace triaccel::kernels {
namespace {

constexpr std::uint32_t kLeastNoise = 0, kLargestNoise = 0xffff;

template <Moment moment>
void expect_every_code_kept() {
  for (const std::uint32_t exponent : {0u, 1u, 17u, 18u, 34u, 35u, 127u, 253u, 254u}) {
    const std::uint32_t lowest = lowest_octave<moment>(exponent);
    for (std::uint32_t code = 0; code < 256; ++code) {
      const float value = decoded_state<moment>(code, lowest);
      ASSERT_TRUE(std::isfinite(value)) << exponent << " " << code;
      for (const std::uint32_t noise : {kLeastNoise, kLargestNoise})
        ASSERT_EQ(encoded_state<moment>(value, lowest, noise), code) << exponent;
    }
  }
}

TEST(StateCode, KeepsEveryLevelWhateverTheNoise) {
  expect_every_code_kept<Moment::First>();
  expect_every_code_kept<Moment::Second>();
}

/// The mean over all the noise there is, less the value, in distances of levels.
template <Moment moment>
double bias_of(float value, std::uint32_t lowest) {
  double sum = 0;
  for (std::uint32_t noise = 0; noise < 65536; ++noise)
    sum += double{decoded_state<moment>(encoded_state<moment>(value, lowest, noise), lowest)};
  const std::uint32_t below = encoded_state<moment>(value, lowest, 0);
  const double distance = std::abs(double{decoded_state<moment>(below + 1, lowest)} -
                                   double{decoded_state<moment>(below, lowest)});
  return (sum / 65536 - double{value}) / distance;
}

// Half a unit of 16 bits, and what a sum of floats may add below the lowest octave.
constexpr double kGrain = 0x1p-17 + 0x1p-21;

TEST(StateCode, IsExactOnAverageInEveryOctave) {
  for (int i = 0; i < 200; ++i) {
    const float fraction = 1 + unit_float(random_words(1, i).words[0]);
    const float value = std::ldexp(fraction, -i % 22);  // 15 octaves, and what lies below them
    const std::uint32_t exponent = block_exponent(bits_of_float(2 - 0x1p-20f));
    ASSERT_LE(std::abs(bias_of<Moment::First>(value, lowest_octave<Moment::First>(exponent))),
              kGrain)
        << value;
    ASSERT_LE(std::abs(bias_of<Moment::First>(-value, lowest_octave<Moment::First>(exponent))),
              kGrain)
        << -value;
    const float square = std::ldexp(fraction, -i % 33);  // 31 octaves, and the lowest levels
    ASSERT_LE(std::abs(bias_of<Moment::Second>(square, lowest_octave<Moment::Second>(exponent))),
              kGrain)
        << square;
  }
}

TEST(StateCode, NeverLosesAPositiveSecondMoment) {
  const std::uint32_t lowest = lowest_octave<Moment::Second>(127);
  EXPECT_EQ(encoded_state<Moment::Second>(1e-44f, lowest, kLeastNoise), 1u);
  EXPECT_EQ(decoded_state<Moment::Second>(1, lowest), 0x1p-33f);
  EXPECT_EQ(encoded_state<Moment::Second>(0, lowest, kLargestNoise), 0u);
}

TEST(StateCode, KeepsWhatIsNotFiniteAsTheLargest) {
  constexpr float largest = 0x1.ep127f, infinity = std::numeric_limits<float>::infinity();
  for (const float value :
       {std::numeric_limits<float>::max(), infinity, std::numeric_limits<float>::quiet_NaN()}) {
    const std::uint32_t lowest = lowest_octave<Moment::First>(block_exponent(bits_of_float(value)));
    EXPECT_EQ(decoded_state<Moment::First>(
                  encoded_state<Moment::First>(value, lowest, kLargestNoise), lowest),
              largest);
    EXPECT_EQ(decoded_state<Moment::First>(
                  encoded_state<Moment::First>(-infinity, lowest, kLargestNoise), lowest),
              -largest);
  }
}

/// Values of many sizes, as moments of one layer may be; denormals and zeros among them.
std::vector<float> values_of(std::int64_t count, Moment moment, std::uint64_t seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const RandomWords drawn = random_words(seed, static_cast<std::uint64_t>(i));
    const int octave = static_cast<int>(bounded(drawn.words[1], 30)) - (i / 128 % 3 == 2 ? 140 : 9);
    const float value = std::ldexp(1 + unit_float(drawn.words[0]), octave);
    const bool negative = moment == Moment::First && drawn.words[2] % 2 == 0;
    values.push_back(drawn.words[3] % 16 == 0 ? 0 : negative ? -value : value);
  }
  return values;
}

struct CodedValues {
  Bytes codes;
  std::vector<float> values;
};

CodedValues coded(const std::vector<float>& values, Moment moment, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(values.size());
  CodedValues result{Bytes(static_cast<std::size_t>(quantized_state_bytes(count)), 0xEE),
                     std::vector<float>(values.size())};
  cpu::encode_state(values.data(), count, moment, seed, result.codes.data());
  cpu::decode_state(result.codes.data(), count, moment, result.values.data());
  return result;
}

class StateCodec : public testing::TestWithParam<Moment> {};

TEST_P(StateCodec, MovesNoValueByMoreThanTheNextLevel) {
  for (const std::int64_t count : odd_counts()) {
    const std::vector<float> values = values_of(count, GetParam(), 3);
    const std::vector<float> found = coded(values, GetParam(), 5).values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      float largest = 0;
      for (std::size_t j = i / 128 * 128; j < std::min(values.size(), i / 128 * 128 + 128); ++j)
        largest = std::max(largest, std::abs(values[j]));
      const float least = largest * (GetParam() == Moment::First ? 0x1.1p-17f : 0x1.1p-33f);
      const float bound = std::max({std::abs(values[i]) / 8, least, 0x1p-126f});
      ASSERT_LE(std::abs(found[i] - values[i]), bound) << values[i] << " below " << largest;
      ASSERT_GE(found[i] * values[i], 0) << "the sign is kept";
    }
  }
}

// Of a thousand blocks some have their largest value rounded to the next power of two.
TEST_P(StateCodec, ChangesNoBitOfWhatItDecoded) {
  const std::vector<float> values = values_of(128 * 1000, GetParam(), 4);
  const std::vector<float> once = coded(values, GetParam(), 5).values;
  EXPECT_TRUE(same_numbers(coded(once, GetParam(), 6).values, once));
  EXPECT_FALSE(same_numbers(coded(values, GetParam(), 6).values, once)) << "the noise is in use";
}

TEST_P(StateCodec, FillsTheLastBlockWithZeros) {
  const Bytes codes = coded(std::vector<float>(130, 1), GetParam(), 1).codes;
  ASSERT_EQ(codes.size(), 2u * 129);
  for (std::size_t i = 130; i < 256; ++i) EXPECT_EQ(codes[i], 0) << i;
  EXPECT_EQ(codes[256], codes[257]);
  EXPECT_EQ(coded(std::vector<float>(128, 0), GetParam(), 1).codes, Bytes(129, 0));
}

INSTANTIATE_TEST_SUITE_P(Moments, StateCodec, testing::Values(Moment::First, Moment::Second),
                         [](const auto& which) {
                           return which.param == Moment::First ? "First" : "Second";
                         });

}  // namespace
}  // namespace triaccel::kernels
