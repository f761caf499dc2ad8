#include "triaccel/kernels/compression/nonzeros/nonzero_codec.h"

#include <gtest/gtest.h>

#include "tests/kernels/compression/nonzeros/nonzero_codec_cases.h"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec_math.h"

namespace triaccel::kernels {
namespace {

using namespace nonzero_cases;

constexpr FloatType kTypes[] = {FloatType::F32, FloatType::Bf16, FloatType::F16};
constexpr Rounding kRoundings[] = {Rounding::Dither, Rounding::Stochastic, Rounding::Nearest};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

NonZeroCoding coding_of(std::int64_t count, int eighths = 16, Rounding rounding = Rounding::Dither,
                        FloatType type = FloatType::F32) {
  return {.type = type,
          .count = count,
          .eighths = eighths,
          .rounding = rounding,
          .key = {.seed = 11, .tensor = 3}};
}

std::vector<float> round_trip(const NonZeroCoding& coding, const std::vector<float>& values) {
  return read_as(coding.type,
                 decoded_on_cpu(coding, encoded_on_cpu(coding, stored_as(coding.type, values))));
}

void expect_oracle(const NonZeroCoding& coding, const std::vector<float>& values,
                   const Bits& given = {}) {
  const Bytes stored = stored_as(coding.type, values);
  const Coded coded = encoded_on_cpu(coding, stored, given);
  const NonZeroOracle oracle(coding);
  const std::string about = testing::PrintToString(coding.count) + " elements, " +
                            testing::PrintToString(coding.eighths) + " eighths";
  ASSERT_EQ(coded.records, oracle.encode(read_as(coding.type, stored), coded.mask)) << about;
  const std::vector<float> found = read_as(coding.type, decoded_on_cpu(coding, coded));
  const std::vector<float> wanted =
      read_as(coding.type, stored_as(coding.type, oracle.decode(coded.records, coded.mask)));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_TRUE(same_number(found[i], wanted[i])) << about << ", element " << i;
}

TEST(NonZeroCodec, IsAsDescribedAtEveryWidth) {
  for (int eighths = kMinNonZeroEighths; eighths <= kMaxNonZeroEighths; eighths += 7)
    for (const Rounding rounding : kRoundings)
      expect_oracle(coding_of(7300, eighths, rounding), awkward_values(7300));
}

TEST(NonZeroCodec, IsAsDescribedAtOddSizesInEveryType) {
  for (const std::int64_t count : odd_counts())
    for (const FloatType type : kTypes)
      expect_oracle(coding_of(count, 19, Rounding::Dither, type), awkward_values(count));
}

TEST(NonZeroCodec, CodesWhateverAMaskSays) {
  for (const FloatType type : kTypes)
    expect_oracle(coding_of(7300, 16, Rounding::Dither, type), awkward_values(7300),
                  every_third(7300));
}

TEST(NonZeroCodec, MarksWhatIsNotZero) {
  const std::vector<float> values = {0.0f, -0.0f, 1e-45f, -3.0f, kNaN, kInfinity};
  EXPECT_EQ(encoded_on_cpu(coding_of(6), stored_as(FloatType::F32, values)).mask, Bits{0b111100u});
}

// Largest and smallest offset at both ends of every range that differs in more than its exponent.
TEST(NonZeroCodec, NeverLeavesItsCodes) {
  for (std::uint32_t mantissa = 0; mantissa < 128; ++mantissa)
    for (std::uint32_t width = 1; width <= 8; ++width)
      for (const std::uint32_t sign : {0u, 0x8000u}) {
        const std::uint32_t range = 127u << 7 | mantissa | sign;
        const float reach = bf16_to_float(static_cast<std::uint16_t>(range & 0x7fffu));
        const CodeGrid grid = code_grid(range, width, offset_rule(Rounding::Dither));
        volatile float highest = reach * grid.scale, lowest = sign != 0 ? -highest : 0.0f;
        const float most = 65535.0f + grid.zero;
        EXPECT_LT(highest + most, static_cast<float>(65536u << width)) << range << ' ' << width;
        EXPECT_GE(lowest + grid.zero, 0.0f) << range << ' ' << width;
      }
}

TEST(NonZeroCodec, StaysWithinHalfALevelAndKeepsZeros) {
  const NonZeroCoding coding = coding_of(7300);
  const std::vector<float> values = awkward_values(7300);
  const Coded coded = encoded_on_cpu(coding, stored_as(FloatType::F32, values));
  const std::vector<float> found = read_as(FloatType::F32, decoded_on_cpu(coding, coded));
  const std::vector<float> levels = NonZeroOracle(coding).levels(coded.records, coded.mask);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_LE(std::fabs(found[i] - values[i]), levels[i] * 0.50001f) << "element " << i;
}

TEST(NonZeroCodec, IsUnbiasedWithTheVarianceOfAUniformError) {
  constexpr std::int64_t count = 2048;
  constexpr int draws = 2000;
  NonZeroCoding coding = coding_of(count);
  const std::vector<float> values = rectified_values(count);
  const Bytes stored = stored_as(FloatType::F32, values);
  const std::vector<float> levels = [&] {
    const Coded coded = encoded_on_cpu(coding, stored);
    return NonZeroOracle(coding).levels(coded.records, coded.mask);
  }();
  for (const auto& [rounding, most_variance] :
       {std::pair{Rounding::Dither, 1 / 12.0}, {Rounding::Stochastic, 1 / 4.0}}) {
    coding.rounding = rounding;
    std::vector<double> sums(count), squares(count);
    for (coding.key.seed = 0; coding.key.seed < draws; ++coding.key.seed) {
      const std::vector<float> found = round_trip(coding, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double error = (double{found[i]} - values[i]) / std::fmax(levels[i], 1e-9f);
        sums[i] += error;
        squares[i] += error * error;
      }
    }
    double mean_square = 0, nonzeros = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_LT(std::fabs(sums[i]) / draws, 5 * std::sqrt(most_variance / draws))
          << "element " << i;
      mean_square += squares[i] / draws;
      nonzeros += values[i] != 0;
    }
    if (rounding == Rounding::Dither) {
      EXPECT_NEAR(12 * mean_square / nonzeros, 1, 0.02);
    }
  }
}

/// Mean squared error over the variance of the values.
double relative_error(int eighths) {
  constexpr std::int64_t count = 1 << 15;
  const std::vector<float> values = rectified_values(count, 9);
  const std::vector<float> found = round_trip(coding_of(count, eighths), values);
  double sum = 0, squares = 0, error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    squares += double{values[i]} * values[i];
    error += std::pow(double{found[i]} - values[i], 2);
  }
  return error / (squares - sum * sum / count);
}

TEST(NonZeroCodec, LosesLessWithEveryBit) {
  // At a density of a half, an eighth of room is a quarter of a bit for each non-zero.
  EXPECT_LT(relative_error(8), 0.128);
  EXPECT_LT(relative_error(12), 0.0236);
  EXPECT_LT(relative_error(16), 0.0051);
  EXPECT_LT(relative_error(20), 0.0012);
  double previous = 1;
  for (int eighths = 8; eighths <= 24; ++eighths) {
    const double error = relative_error(eighths);
    EXPECT_LT(error, previous) << eighths;
    previous = error;
  }
}

TEST(NonZeroCodec, SpoilsOnlyAnOutliersGroup) {
  std::vector<float> values = rectified_values(2048);
  values[300] = 1;
  const std::vector<float> before = round_trip(coding_of(2048), values);
  values[300] = 1e6f;
  const std::vector<float> after = round_trip(coding_of(2048), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i / 128 == 300 / 128) continue;
    EXPECT_EQ(after[i], before[i]) << "element " << i;
  }
  EXPECT_NEAR(after[300], 1e6f, 1e5f);
}

TEST(NonZeroCodec, DecodesGroupsThatAreNotFiniteToNaNAndCountsThem) {
  for (const FloatType type : kTypes) {
    std::vector<float> values = rectified_values(3000);
    values[5] = kNaN;
    values[1500] = -kInfinity;
    values[2999] = kInfinity;
    const NonZeroCoding coding = coding_of(3000, 16, Rounding::Dither, type);
    const Coded coded = encoded_on_cpu(coding, stored_as(type, values));
    EXPECT_EQ(coded.not_finite, 3);
    const std::vector<float> found = read_as(type, decoded_on_cpu(coding, coded));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool in_group = i / 128 == 5 / 128 || i / 128 == 1500 / 128 || i / 128 == 2999 / 128;
      if (values[i] == 0)
        EXPECT_EQ(found[i], 0) << i;
      else
        EXPECT_EQ(std::isnan(found[i]), in_group) << i;
    }
    expect_oracle(coding, values);
  }
}

TEST(NonZeroCodec, DrawsAnewForEveryTensorAndStep) {
  const std::vector<float> values = rectified_values(1024);
  NonZeroCoding coding = coding_of(1024);
  const std::vector<float> first = round_trip(coding, values);
  coding.key.tensor += 1;
  EXPECT_NE(round_trip(coding, values), first);
  coding.key.tensor -= 1;
  std::int64_t step = 0;
  coding.key.step = &step;
  EXPECT_EQ(round_trip(coding, values), first);
  step = 1;
  EXPECT_NE(round_trip(coding, values), first);
}

}  // namespace
}  // namespace triaccel::kernels
