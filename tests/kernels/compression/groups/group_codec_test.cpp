#include "triaccel/kernels/compression/groups/group_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/kernels/compression/codec_map_cases.h"
#include "tests/kernels/compression/groups/group_codec_cases.h"

namespace triaccel::kernels {
namespace {

using namespace group_cases;

constexpr FloatType kTypes[] = {FloatType::F32, FloatType::Bf16, FloatType::F16};
constexpr Rounding kRoundings[] = {Rounding::Dither, Rounding::Stochastic, Rounding::Nearest};

GroupCoding coding_of(std::int64_t count, int eighths = 16, Rounding rounding = Rounding::Dither,
                      FloatType type = FloatType::F32) {
  return {.type = type,
          .count = count,
          .eighths = eighths,
          .rounding = rounding,
          .key = {.seed = 11, .tensor = 3}};
}

std::vector<float> round_trip(const GroupCoding& coding, const std::vector<float>& values) {
  return read_as(coding.type,
                 decoded_on_cpu(coding, encoded_on_cpu(coding, stored_as(coding.type, values))));
}

void expect_oracle(const GroupCoding& coding) {
  const Bytes stored = stored_as(coding.type, awkward_values(coding.count));
  const GroupOracle oracle(coding);
  const Bytes codes = encoded_on_cpu(coding, stored);
  ASSERT_EQ(codes, oracle.encode(read_as(coding.type, stored)))
      << coding.count << " elements, " << coding.eighths << " eighths, rounding "
      << static_cast<int>(coding.rounding) << ", type " << static_cast<int>(coding.type);
  ASSERT_EQ(decoded_on_cpu(coding, codes), stored_as(coding.type, oracle.decode(codes)));
}

/// In (0, 1), evenly.
std::vector<float> uniform_values(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(unit_float(random_words(9, static_cast<std::uint64_t>(i)).words[1]));
  return values;
}

TEST(GroupCodec, GivesTheBitsOfTheOracleAtEveryWidth) {
  for (int eighths = kMinGroupEighths; eighths <= kMaxGroupEighths; ++eighths)
    for (const Rounding rounding : kRoundings) expect_oracle(coding_of(3000, eighths, rounding));
}

TEST(GroupCodec, GivesTheBitsOfTheOracleAtOddSizesInEveryType) {
  for (const std::int64_t count : odd_counts())
    for (const FloatType type : kTypes) expect_oracle(coding_of(count, 21, Rounding::Dither, type));
}

TEST(GroupCodec, WritesWhatAMapMakesOfItsElements) {
  const std::int64_t images = 3, channels = 36, pixels = 35, count = images * channels * pixels;
  for (const FloatType type : kTypes)
    for (const std::int64_t channel_stride : {std::int64_t{1}, pixels})
      for (const map_cases::MapKind kind : map_cases::kMapKinds) {
        GroupCoding coding = coding_of(count, 43);
        const Bytes codes = encoded_on_cpu(coding, stored_as(coding.type, uniform_values(count)));
        const std::vector<float> plain = read_as(coding.type, decoded_on_cpu(coding, codes));
        const map_cases::MapCase made(kind, images, channels, count);
        coding.type = type;
        Bytes values(stored_as(type, plain).size());
        cpu::decode_groups(coding, codes.data(), values.data(), made.map(),
                           {channels, channel_stride, channels * pixels});
        const std::vector<float> found = read_as(type, values);
        std::vector<float> expected;
        for (std::int64_t i = 0; i < count; ++i)
          expected.push_back(made.expected(plain[static_cast<std::size_t>(i)], i,
                                           i / channel_stride % channels, i / (channels * pixels)));
        expected = read_as(type, stored_as(type, expected));
        for (std::size_t i = 0; i < found.size(); ++i)
          ASSERT_TRUE(map_cases::agrees(found[i], expected[i], kind.activation, type))
              << "element " << i << " is " << found[i] << ", not " << expected[i];
      }
}

TEST(GroupCodec, GivesTheBitsOfTheOracleOnManyThreads) { expect_oracle(coding_of(70'000, 19)); }

TEST(GroupCodec, DecodesWithinHalfALevel) {
  for (const int eighths : {8, 16, 27, 64}) {
    const GroupCoding coding = coding_of(7000, eighths);
    const std::vector<float> values = awkward_values(coding.count);
    const Bytes codes = encoded_on_cpu(coding, stored_as(FloatType::F32, values));
    const std::vector<float> decoded = read_as(FloatType::F32, decoded_on_cpu(coding, codes));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float level = GroupOracle(coding).level_at(codes, static_cast<std::int64_t>(i));
      ASSERT_LE(std::fabs(decoded[i] - values[i]), 0.5001f * level + 1e-6f * std::fabs(values[i]))
          << "element " << i << " of " << eighths << " eighths";
    }
  }
}

TEST(GroupCodec, KeepsZerosAndConstantsThatBf16Has) {
  for (const float constant : {0.0f, -0.0f, 1.0f, -384.0f, 0x1.0p-130f})
    for (const float value : round_trip(coding_of(300, 8), std::vector<float>(300, constant)))
      ASSERT_EQ(value, constant);
}

TEST(GroupCodec, IsUnbiasedWithTheVarianceOfItsRounding) {
  constexpr std::int64_t count = 10'240;
  constexpr int seeds = 4096;
  const std::vector<float> values = uniform_values(count);
  for (const Rounding rounding : {Rounding::Dither, Rounding::Stochastic}) {
    std::vector<double> sums(count);
    double squares = 0;
    GroupCoding coding = coding_of(count, 16, rounding);
    Bytes codes(static_cast<std::size_t>(group_bytes(count, 16)));
    std::vector<float> decoded(count);
    for (int seed = 0; seed < seeds; ++seed) {
      const std::int64_t step = seed;
      coding.key.step = &step;
      cpu::encode_groups(coding, values.data(), codes.data(), nullptr);
      cpu::decode_groups(coding, codes.data(), decoded.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double error = double{decoded[i]} - values[i];
        sums[i] += error;
        squares += error * error;
      }
    }
    const double level = GroupOracle(coding).level_at(codes, 0);
    const double twelfths = rounding == Rounding::Dither ? 1 : 2;
    const double variance = level * level / 12 * twelfths;
    EXPECT_NEAR(squares / seeds / count / variance, 1, 0.02);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(sums[i] / seeds, 0, 5 * std::sqrt(1.5 * variance / seeds)) << "element " << i;
  }
}

TEST(GroupCodec, RoundsRangesOutwards) {
  for (const float least : {-3.337f, -1e-20f, 0.0f, 1.0f, 77.7f, -3e37f})
    for (const float width : {0.0f, 1e-25f, 0.7f, 1e3f, 2.5e37f}) {
      const float largest = least + width;
      const GroupRange range = group_range(least, largest);
      EXPECT_LE(range.low, least);
      EXPECT_GE(range.low + range.range, largest);
      EXPECT_EQ(read_group_range(stored_group_range(range)).low, range.low);
      EXPECT_EQ(read_group_range(stored_group_range(range)).range, range.range);
    }
}

TEST(GroupCodec, NeverOverflowsItsHighestCode) {
  for (int eighths = kMinGroupEighths; eighths <= kMaxGroupEighths; ++eighths)
    for (const GroupCodes& codes : group_widths(eighths).kinds)
      for (const float largest : {0.3337f, 1.0f, 1e6f, 3e38f}) {
        const GroupRange range = group_range(-0.1f, largest);
        const float scale = group_scale(range) * codes.top;
        for (const float value : {largest, range.low + range.range}) {
          const float position = group_position(value, range.low, scale, 65535.5f, codes.limit);
          ASSERT_LE(std::floor(position / 65536.0f), codes.top);
        }
      }
}

TEST(GroupCodec, DecodesAGroupThatIsNotFiniteToNaNAndCountsIt) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, -nan, infinity, -infinity}) {
    std::vector<float> values = uniform_values(2000);
    values[300] = bad;
    values[1999] = bad;
    const GroupCoding coding = coding_of(2000, 20);
    std::int32_t not_finite = 5;
    const Bytes codes = encoded_on_cpu(coding, stored_as(FloatType::F32, values), &not_finite);
    EXPECT_EQ(not_finite, 7);
    EXPECT_EQ(codes, GroupOracle(coding).encode(values));
    const std::vector<float> decoded = read_as(FloatType::F32, decoded_on_cpu(coding, codes));
    for (std::size_t i = 0; i < decoded.size(); ++i)
      ASSERT_EQ(std::isnan(decoded[i]), (i >= 256 && i < 512) || i >= 1792) << "element " << i;
  }
}

TEST(GroupCodec, GivesNaNWhereBf16HasNoRange) {
  const std::vector<float> values = {3.4e38f, -3.4e38f};
  for (const float value : round_trip(coding_of(2), values)) EXPECT_TRUE(std::isnan(value));
}

TEST(GroupCodec, CodesTheSameValuesAlikeInEveryType) {
  std::vector<float> values = uniform_values(1500);
  for (float& value : values) value = std::floor(value * 64) / 8;
  const Bytes codes = encoded_on_cpu(coding_of(1500, 22), stored_as(FloatType::F32, values));
  for (const FloatType type : {FloatType::Bf16, FloatType::F16})
    EXPECT_EQ(encoded_on_cpu(coding_of(1500, 22, Rounding::Dither, type), stored_as(type, values)),
              codes);
}

TEST(GroupCodec, DrawsOtherOffsetsForAnotherTensorAndStep) {
  const Bytes values = stored_as(FloatType::F32, uniform_values(1024));
  const std::int64_t step = 1;
  GroupCoding coding = coding_of(1024);
  const Bytes codes = encoded_on_cpu(coding, values);
  coding.key.tensor = 4;
  EXPECT_NE(encoded_on_cpu(coding, values), codes);
  coding.key = coding_of(1024).key;
  coding.key.step = &step;
  EXPECT_NE(encoded_on_cpu(coding, values), codes);
}

TEST(GroupCodec, WritesNothingBehindTheEnd) {
  for (const std::int64_t count : odd_counts()) {
    const GroupCoding coding = coding_of(count, 23);
    const auto room = static_cast<std::size_t>(group_bytes(count, 23));
    Bytes codes(room + 8, 0x5a), values(static_cast<std::size_t>(count) * 4 + 8, 0x5a);
    const Bytes from = stored_as(FloatType::F32, awkward_values(count));
    cpu::encode_groups(coding, from.data(), codes.data(), nullptr);
    cpu::decode_groups(coding, codes.data(), values.data());
    EXPECT_TRUE(std::all_of(codes.end() - 8, codes.end(), [](auto byte) { return byte == 0x5a; }));
    EXPECT_TRUE(
        std::all_of(values.end() - 8, values.end(), [](auto byte) { return byte == 0x5a; }));
  }
}

}  // namespace
}  // namespace triaccel::kernels
