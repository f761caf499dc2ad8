#include <gtest/gtest.h>

#include <limits>

#include "bench/papers/baseline_codecs/split_codec.h"
#include "bench/papers/baseline_codecs/three_pass_codec.h"
#include "tests/kernels/compression/groups/group_codec_cases.h"

namespace triaccel::kernels {
namespace {

using namespace group_cases;

using Values = std::vector<float>;

Bytes encoded(const PlainGroupCoding& coding, const Bytes& values, std::int32_t* not_finite) {
  Bytes codes(static_cast<std::size_t>(
      plain_group_bytes(sample_groups(coding.samples, coding.count), coding.bits)));
  cpu::encode_plain_groups(coding, values.data(), codes.data(), not_finite);
  return codes;
}

Values round_trip(const PlainGroupCoding& coding, const Values& values,
                  std::int32_t* not_finite = nullptr) {
  const Bytes stored = stored_as(coding.type, values);
  const Bytes codes = encoded(coding, stored, not_finite);
  Bytes decoded(stored.size());
  cpu::decode_plain_groups(coding, codes.data(), decoded.data());
  return read_as(coding.type, decoded);
}

Values round_trip(const SplitCoding& coding, const Values& values,
                  std::int32_t* not_finite = nullptr) {
  const Bytes stored = stored_as(coding.type, values);
  Bytes codes(static_cast<std::size_t>(split_bytes(coding.maps, coding.rows, coding.columns)));
  cpu::encode_split(coding, stored.data(), codes.data(), not_finite);
  Bytes decoded(stored.size());
  cpu::decode_split(coding, codes.data(), decoded.data());
  return read_as(coding.type, decoded);
}

/// Sums of uniform numbers: close to the normal distribution.
Values bell_values(std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = -6;
    for (std::uint64_t k = 0; k < 3; ++k)
      for (const std::uint32_t word : random_words(4, static_cast<std::uint64_t>(i) * 3 + k).words)
        sum += unit_float(word);
    values.push_back(sum);
  }
  return values;
}

/// Squared error over squared values.
double error_of(const Values& found, const Values& values) {
  double error = 0, energy = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(double{found[i]} - values[i], 2);
    energy += std::pow(double{values[i]}, 2);
  }
  return error / energy;
}

TEST(PlainGroups, StoreQuantizedValuesBeforeLowestValuesAndScales) {
  // The lowest value of a group has code 0 whatever its offset.
  const PlainGroupCoding coding = {.count = 6, .samples = 2, .bits = 2};
  const Bytes codes = encoded(coding, stored_as(FloatType::F32, {0, 3, 0, -2, 1, 1}), nullptr);
  ASSERT_EQ(codes.size(), 2u * 68u);
  EXPECT_EQ(codes[0] & 0x33, 0x00);
  EXPECT_EQ(codes[64] & 0x03, 0x00);
  const Bytes header(codes.begin() + 128, codes.end());
  EXPECT_EQ(header, (Bytes{0x00, 0x00, 0x80, 0x3f, 0x00, 0xc0, 0x80, 0x3f}));  // 0, 1; -2, 1
}

TEST(PlainGroups, DecodeWithinALevelAtOddSizes) {
  for (const std::int64_t count : odd_counts())
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const int bits : {1, 2, 4, 8}) {
        const std::int64_t samples = count % 7 == 0 && count > 0 ? 7 : 1;
        const Values values = bell_values(count);
        const Values found = round_trip(
            PlainGroupCoding{.type = type, .count = count, .samples = samples, .bits = bits},
            values);
        for (std::size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], values[i], 12.0 / ((1 << bits) - 1) + 0.06)
              << count << " elements, " << bits << " bits";
      }
}

TEST(PlainGroups, HaveTwiceTheErrorOfDitheredGroups) {
  constexpr std::int64_t count = 1 << 17;
  const Values values = bell_values(count);
  const GroupCoding dithered = {.count = count, .eighths = 16};
  const double ours = error_of(
      read_as(
          FloatType::F32,
          decoded_on_cpu(dithered, encoded_on_cpu(dithered, stored_as(FloatType::F32, values)))),
      values);
  const double actnn =
      error_of(round_trip(PlainGroupCoding{.count = count, .bits = 2}, values), values);
  const double gact =
      error_of(round_trip(PlainGroupCoding{.count = count, .bits = 4}, values), values);
  EXPECT_NEAR(actnn / ours, 2, 0.1);
  EXPECT_NEAR(actnn / gact, 25, 1.5);  // (15 / 3)^2
}

TEST(PlainGroups, AreBiasedByTheirHeaderOnly) {
  constexpr std::int64_t count = 256;
  const Values values = bell_values(count);
  Values sums(count);
  for (std::int64_t step = 0; step < 2000; ++step) {
    PlainGroupCoding coding = {.count = count, .bits = 2};
    coding.key.step = &step;
    const Values found = round_trip(coding, values);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += found[i] / 2000;
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    ASSERT_NEAR(sums[i], values[i], 5 * 1.0 / std::sqrt(2000.0) + 12.0 / 256);
}

TEST(PlainGroups, DecodeAGroupThatIsNotFiniteToNaNAndCountIt) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Values values = bell_values(600);
    values[256] = bad;
    std::int32_t not_finite = 0;
    const Values found = round_trip(PlainGroupCoding{.count = 600, .bits = 2}, values, &not_finite);
    EXPECT_EQ(not_finite, 1);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(std::isnan(found[i]), i >= 256 && i < 512);
  }
}

TEST(Split, KeepsTheMeansOfBlocks) {
  // Each block of 8 x 8 is constant, so nothing but means is left.
  Values values;
  for (int i = 0; i < 2 * 16 * 24; ++i)
    values.push_back(static_cast<float>(i / 384 * 100 + i % 384 / 24 / 8 * 10 + i % 24 / 8));
  const Values found = round_trip(SplitCoding{.maps = 2, .rows = 16, .columns = 24}, values);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found[i], values[i], 1e-5);
}

TEST(Split, DecodesWithinALevelAtOddSizes) {
  for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{
           {1, 2}, {4, 4}, {7, 7}, {8, 8}, {13, 13}, {14, 14}, {31, 33}, {28, 3}})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16}) {
      const SplitCoding coding = {.type = type, .maps = 5, .rows = rows, .columns = columns};
      const Values values = bell_values(coding.maps * rows * columns);
      const Values found = round_trip(coding, values);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(found[i], values[i], 12.0 / 3) << rows << " x " << columns;
    }
}

TEST(Split, BeatsPlainGroupsWhereMapsAreSmooth) {
  Values values;
  for (int i = 0; i < 32 * 1024; ++i) {
    const int row = i / 32 % 32, column = i % 32;
    values.push_back(std::sin(0.1f * static_cast<float>(row + i / 1024)) *
                     std::cos(0.1f * static_cast<float>(column)));
  }
  const double split =
      error_of(round_trip(SplitCoding{.maps = 32, .rows = 32, .columns = 32}, values), values);
  const double plain =
      error_of(round_trip(PlainGroupCoding{.count = 32 * 1024, .bits = 2}, values), values);
  EXPECT_LT(split, plain / 2);
}

TEST(Split, DecodesAMapThatIsNotFiniteToNaNAndCountsIt) {
  Values values = bell_values(3 * 81);
  values[81 + 80] = std::numeric_limits<float>::infinity();
  std::int32_t not_finite = 0;
  const Values found =
      round_trip(SplitCoding{.maps = 3, .rows = 9, .columns = 9}, values, &not_finite);
  EXPECT_EQ(not_finite, 1);
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(std::isnan(found[i]), i >= 81 && i < 162);
}

TEST(BaselineBytes, CountWhatOthersStore) {
  const std::vector<std::int64_t> maps = {128, 64, 32, 32}, small = {128, 512, 4, 4},
                                  rows = {128, 1000}, none = {0, 64, 8, 8};
  EXPECT_EQ(baseline_bytes(Baseline::Bf16, maps), 2 * 8388608);
  EXPECT_EQ(baseline_bytes(Baseline::Actnn, maps), 32768 * 68);
  EXPECT_EQ(baseline_bytes(Baseline::Gact, maps), 32768 * 132);
  EXPECT_EQ(baseline_bytes(Baseline::Division, maps), 8192 * (4 + 32 + 256));
  EXPECT_EQ(baseline_bytes(Baseline::Division, small), 65536 * (4 + 2 + 4));
  EXPECT_EQ(baseline_bytes(Baseline::Actnn, rows), 128 * 4 * 68);
  EXPECT_EQ(baseline_bytes(Baseline::Division, rows), 128 * 4 * 68);
  EXPECT_EQ(baseline_bytes(Baseline::Actnn, none), 0);
  EXPECT_EQ(baseline_bytes(Baseline::Division, none), 0);
}

}  // namespace
}  // namespace triaccel::kernels
