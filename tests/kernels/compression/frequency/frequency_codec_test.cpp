#include "triaccel/kernels/compression/frequency/frequency_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numbers>

#include "tests/kernels/compression/codec_map_cases.h"
#include "tests/kernels/compression/frequency/frequency_codec_cases.h"
#include "tests/kernels/compression/frequency/plain_frequency_codec.h"
#include "triaccel/kernels/compression/block_transform.h"
#include "triaccel/kernels/compression/frequency/frequency_code_table.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_math.h"

namespace triaccel::kernels {
namespace {

struct Coded {
  Bytes codes;
  int not_finite = 0;
};

Coded encode(const FrequencyCoding& coding, const Bytes& values) {
  Coded coded = {Bytes(static_cast<std::size_t>(layout_of(coding).bytes()), 0xee)};
  cpu::encode_frequency(coding, values.data(), coded.codes.data(), &coded.not_finite);
  return coded;
}

Coded encode(const FrequencyCoding& coding, const std::vector<float>& values) {
  return encode(coding, stored_as(coding.type, values));
}

std::vector<float> decode(const FrequencyCoding& coding, const Bytes& codes) {
  Bytes values = stored_as(coding.type,
                           std::vector<float>(static_cast<std::size_t>(reach_of(coding.map)), 42));
  cpu::decode_frequency(coding, codes.data(), values.data());
  return read_as(coding.type, values);
}

std::vector<float> round_trip(const FrequencyCoding& coding, const std::vector<float>& values) {
  return decode(coding, encode(coding, values).codes);
}

UnitRanges ranges_in(const Coded& coded, std::int64_t unit) {
  std::uint64_t header;
  std::memcpy(&header, coded.codes.data() + unit * kUnitHeaderBytes, sizeof header);
  return ranges_of(header);
}

/// One unit of a channel: eight 8 x 8 blocks side by side.
FrequencyCoding one_unit(const std::array<std::uint8_t, kFrequencyBands>& eighths) {
  return {.map = dense_map(1, 1, 8, 64, MapOrder::Nchw),
          .block = 8,
          .bits = coefficient_bits(8, eighths),
          .key = {.seed = 9}};
}

/// The step between two levels of a coefficient of an 8 x 8 block, in orthonormal terms.
double step_of(const FrequencyCoding& coding, const Coded& coded, std::size_t place) {
  const int band = band_at(8, static_cast<int>(place)), levels = 1 << coding.bits[place];
  return double{band_range(ranges_in(coded, 0), band)} * kWidth / 8 / (levels - 1);
}

/// The orthonormal coefficients of 8 x 8 block `number` of one_unit().
std::vector<double> coefficients_of_block(const std::vector<float>& values, int number) {
  std::vector<double> all;
  for (int place = 0; place < 64; ++place) {
    const CoefficientPlace at = coefficient_at(8, place);
    double sum = 0;
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 8; ++x)
        sum += values[static_cast<std::size_t>(y * 64 + number * 8 + x)] *
               std::cos((2 * y + 1) * at.row * std::numbers::pi / 16) *
               std::cos((2 * x + 1) * at.column * std::numbers::pi / 16);
    all.push_back(sum / 4 * (at.row == 0 ? std::numbers::sqrt2 / 2 : 1) *
                  (at.column == 0 ? std::numbers::sqrt2 / 2 : 1));
  }
  return all;
}

template <int n>
void expect_cosine_transform() {
  using T = Transform<n>;
  for (int i = 0; i < n; ++i) {
    float x[n] = {}, y[n] = {};
    x[i] = 1;
    T::forward(x);
    y[i] = T::kScale[i];
    T::back(y);
    for (int k = 0; k < n; ++k) {
      const double exact = std::sqrt((k == 0 ? 1.0 : 2.0) / n * T::kGain) *
                           std::cos((2 * i + 1) * k * std::numbers::pi / (2 * n));
      EXPECT_NEAR(double{x[k]} * T::kScale[k], exact, 1e-6) << n << " point " << k << "," << i;
      const double transposed = std::sqrt((i == 0 ? 1.0 : 2.0) / n * T::kGain) *
                                std::cos((2 * k + 1) * i * std::numbers::pi / (2 * n));
      EXPECT_NEAR(double{y[k]}, transposed, 1e-6) << n << " point back " << k << "," << i;
    }
  }
}

TEST(Transform, IsTheCosineTransformAndItsTranspose) {
  expect_cosine_transform<8>();
  expect_cosine_transform<7>();
  expect_cosine_transform<4>();
}

TEST(CodeBits, NeverLeaveTheirBits) {
  for (std::uint32_t code = kSmallestCode; code <= kLargestCode; code += 7)
    for (int bits = 1; bits <= 8; ++bits)
      for (const std::uint32_t word : {0u, 0x7fffu, kHalfOffsets}) {
        const float range = float_from_bits(code << kRangeShift);
        const auto levels = static_cast<std::uint32_t>(1 << bits);
        const float scale = inverse_width(range) * static_cast<float>(levels - 1);
        for (const float value : {-range, range, range * 0.99999994f})
          ASSERT_LT(code_bits(value, scale, offset_bits(word, 0)) - kCodeBaseBits + levels / 2,
                    levels)
              << value << " of " << range << " in " << bits << " bits";
      }
}

TEST(ChunkOffsets, AreUniformAndIndependent) {
  constexpr int calls = 4096;
  std::array<double, kMaxCodes> sums = {};
  std::array<std::array<double, kMaxCodes>, kMaxCodes> products = {};
  for (std::uint64_t call = 0; call < calls; ++call) {
    const OffsetWords first = offset_words(DitherDraws({.seed = 5}).words(call, 0));
    std::array<double, kMaxCodes> offsets;
    for (std::size_t i = 0; i < kMaxCodes; ++i) {
      const OffsetWords words = chunk_offsets(first, static_cast<int>(i) / kOffsetsOfCall);
      offsets[i] = float_from_bits(offset_bits(words.words[i % kOffsetsOfCall / 2], i % 2)) - 256.5;
      sums[i] += offsets[i] / calls;
      for (std::size_t k = 0; k < i; ++k) products[i][k] += offsets[i] * offsets[k] / calls;
    }
  }
  const double sigma = std::sqrt(1.0 / 12 / calls);
  for (std::size_t i = 0; i < kMaxCodes; ++i) {
    EXPECT_NEAR(sums[i], 0, 5 * sigma) << i;
    for (std::size_t k = 0; k < i; ++k)
      EXPECT_NEAR(products[i][k] * std::sqrt(12), 0, 5 * sigma) << i << " and " << k;
  }
}

TEST(FrequencyCodec, GivesTheBitsOfThePlainOne) {
  for (const FrequencyCoding& coding : awkward_codings()) {
    const Bytes values = stored_as(coding.type, awkward_map(coding.map));
    const Coded found = encode(coding, values);
    Coded plain = {Bytes(found.codes.size(), 0x11)};
    plain::encode_frequency(coding, values.data(), plain.codes.data(), &plain.not_finite);
    ASSERT_EQ(found.codes, plain.codes) << described(coding);
    ASSERT_EQ(found.not_finite, plain.not_finite) << described(coding);
    Bytes decoded = stored_as(
        coding.type, std::vector<float>(static_cast<std::size_t>(reach_of(coding.map)), 42));
    plain::decode_frequency(coding, plain.codes.data(), decoded.data());
    ASSERT_TRUE(same_numbers(decode(coding, found.codes), read_as(coding.type, decoded)))
        << described(coding);
  }
}

TEST(FrequencyCodec, WritesWhatAMapMakesOfItsElements) {
  for (const int block : {8, 7, 4})
    for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc})
      for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
        for (const map_cases::MapKind kind : map_cases::kMapKinds) {
          FrequencyCoding coding = {.map = dense_map(3, 37, 13, 9, order),
                                    .block = block,
                                    .bits = coefficient_bits(block, {56, 36, 28, 20, 12})};
          const Coded coded = encode(coding, noisy_map(coding.map));
          const std::vector<float> plain = decode(coding, coded.codes);
          const map_cases::MapCase made(kind, 3, 37, reach_of(coding.map));
          coding.type = type;
          Bytes values(stored_as(type, plain).size());
          cpu::decode_frequency(coding, coded.codes.data(), values.data(), made.map());
          std::vector<float> expected(plain.size());
          for_each_place(
              coding.map, [&](std::int64_t place, std::int64_t number, std::int64_t channel) {
                const auto at = static_cast<std::size_t>(place);
                expected[at] = made.expected(plain[at], place, channel, number / (37 * 13 * 9));
              });
          const std::vector<float> found = read_as(type, values);
          expected = read_as(type, stored_as(type, expected));
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_TRUE(map_cases::agrees(found[i], expected[i], kind.activation, type))
                << described(coding) << ", element " << i << " is " << found[i] << ", not "
                << expected[i];
        }
}

TEST(FrequencyCodec, GivesTheSameCodesInWhateverOrderValuesLie) {
  for (const int block : {8, 7, 4})
    for (const std::int64_t channels : {1, 3, 24, 33}) {
      FrequencyCoding coding = {.map = dense_map(3, channels, 13, 31, MapOrder::Nchw),
                                .block = block,
                                .bits = coefficient_bits(block, {56, 30, 22, 17, 8})};
      const Coded nchw = encode(coding, awkward_map(coding.map));
      coding.map = dense_map(3, channels, 13, 31, MapOrder::Nhwc);
      EXPECT_EQ(encode(coding, awkward_map(coding.map)).codes, nchw.codes);
      coding.map.offset = 3;
      coding.map.row_stride += 7;
      coding.map.image_stride = 13 * coding.map.row_stride;
      EXPECT_EQ(encode(coding, awkward_map(coding.map)).codes, nchw.codes);
    }
}

TEST(FrequencyCodec, ErrsByHalfAStepAtMostInEveryCoefficient) {
  for (const std::uint8_t eighths : std::initializer_list<std::uint8_t>{8, 16, 30, 64})
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      FrequencyCoding coding = one_unit({eighths, eighths, eighths, eighths, eighths});
      coding.key.seed = seed;
      const std::vector<float> values = noisy_map(coding.map, seed);
      const Coded coded = encode(coding, values);
      const std::vector<float> found = decode(coding, coded.codes);
      for (int block = 0; block < 8; ++block) {
        const std::vector<double> wanted = coefficients_of_block(values, block);
        const std::vector<double> got = coefficients_of_block(found, block);
        for (std::size_t place = 0; place < 64; ++place)
          EXPECT_LE(std::abs(got[place] - wanted[place]),
                    0.5001 * step_of(coding, coded, place) + 1e-6);
      }
    }
}

TEST(FrequencyCodec, HasHeadersThatCoverTheirUnits) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const FrequencyCoding coding = one_unit({16, 16, 16, 16, 16});
    std::vector<float> values = noisy_map(coding.map, seed);
    const float shift = seed % 2 == 0 ? 300.0f : 0.0f, factor = seed % 3 == 0 ? 1e-25f : 1.0f;
    for (float& value : values) value = (value + shift) * factor;
    const UnitRanges ranges = ranges_in(encode(coding, values), 0);
    for (int block = 0; block < 8; ++block) {
      const std::vector<double> wanted = coefficients_of_block(values, block);
      for (std::size_t place = 0; place < 64; ++place) {
        const int band = band_at(8, static_cast<int>(place));
        const double middle = band == 0 ? middle_of(ranges) : 0;
        EXPECT_LE(std::abs(wanted[place] * 8 - middle), 1.00001 * band_range(ranges, band));
      }
    }
  }
}

TEST(FrequencyCodec, DecodesZerosToZerosAndConstantsWithinHalfAStep) {
  for (const int block : {8, 7, 4})
    for (const float constant : {0.0f, 0.37f, -1000.3f, 1e-20f}) {
      const FrequencyCoding coding = {.map = dense_map(2, 3, 16, 28, MapOrder::Nhwc),
                                      .block = block,
                                      .bits = coefficient_bits(block, {32, 8, 8, 8, 8})};
      const std::vector<float> values(static_cast<std::size_t>(reach_of(coding.map)), constant);
      const Coded coded = encode(coding, values);
      const float step = band_range(ranges_in(coded, 0), 0) * kWidth / gain_of(block) / 15 /
                         static_cast<float>(block);
      for (const float found : decode(coding, coded.codes)) {
        EXPECT_NEAR(found, constant, step * 0.5001f + std::abs(constant) * 1e-6f);
        EXPECT_LE(std::abs(found - constant), std::abs(constant) * 0.01f);
      }
    }
}

TEST(FrequencyCodec, KeepsAnOutlierToItsUnit) {
  const FrequencyCoding coding = {.map = dense_map(8, 3, 8, 8, MapOrder::Nchw),
                                  .block = 8,
                                  .bits = coefficient_bits(8, {64, 64, 64, 64, 64})};
  std::vector<float> values = noisy_map(coding.map);
  values[64 + 7] = 1e6f;  // image 0, channel 1
  const std::vector<float> found = round_trip(coding, values);
  EXPECT_NEAR(found[64 + 7], 1e6f, 2e4f);
  for_each_place(coding.map, [&](std::int64_t place, std::int64_t, std::int64_t channel) {
    const auto i = static_cast<std::size_t>(place);
    if (channel != 1) {
      EXPECT_NEAR(found[i], values[i], 0.2f);
    }
  });
}

TEST(FrequencyCodec, DecodesAUnitThatIsNotFiniteToNaNAndCountsIt) {
  for (const int block : {8, 7, 4})
    for (const float broken : {NAN, -NAN, INFINITY, -INFINITY, 3e38f}) {
      const FrequencyCoding coding = {.map = dense_map(64, 3, 4, 4, MapOrder::Nhwc),
                                      .block = block,
                                      .bits = coefficient_bits(block, {48, 30, 24, 17, 12})};
      std::vector<float> values = noisy_map(coding.map);
      values[7] = broken;  // channel 1 of image 0
      const Coded coded = encode(coding, values);
      EXPECT_EQ(coded.not_finite, 1);
      const std::vector<float> found = decode(coding, coded.codes);
      const std::int64_t images = block == 4 ? 32 : 8;
      for_each_place(coding.map, [&](std::int64_t place, std::int64_t number, std::int64_t c) {
        const bool in_unit = c == 1 && number / 48 < images;
        EXPECT_EQ(std::isnan(found[static_cast<std::size_t>(place)]), in_unit);
      });
    }
}

TEST(FrequencyCodec, IsUnbiasedWithAnErrorOfATwelfthOfAStepSquared) {
  // Two bits, so that steps are as large as the values.
  FrequencyCoding coding = one_unit({16, 16, 16, 16, 16});
  const std::vector<float> values = noisy_map(coding.map);
  const Coded coded = encode(coding, values);
  constexpr int draws = 1500;
  std::vector<double> sums(512), squares(512);
  for (int draw = 0; draw < draws; ++draw) {
    coding.key.seed = static_cast<std::uint64_t>(draw);
    const std::vector<float> found = round_trip(coding, values);
    for (std::size_t i = 0; i < 512; ++i) {
      const double error = double{found[i]} - double{values[i]};
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  double variance = 0;  // of an element: the mean over coefficients
  for (std::size_t place = 0; place < 64; ++place)
    variance += std::pow(step_of(coding, coded, place), 2) / 12 / 64;
  double all = 0;
  for (std::size_t i = 0; i < 512; ++i) {
    EXPECT_LT(std::abs(sums[i] / draws), 5 * std::sqrt(2 * variance / draws)) << i;
    all += squares[i] / draws / 512;
  }
  EXPECT_NEAR(all / variance, 1.0, 0.02);
}

TEST(FrequencyCodec, RoundsStochasticallyWithTwiceTheErrorAndToTheNearestWithBias) {
  FrequencyCoding coding = one_unit({24, 24, 24, 24, 24});
  const std::vector<float> values = noisy_map(coding.map);
  const auto mean_square = [&](Rounding rounding, bool of_mean) {
    coding.rounding = rounding;
    constexpr int draws = 200;
    std::vector<double> sums(512);
    double squares = 0;
    for (int draw = 0; draw < draws; ++draw) {
      coding.key.seed = static_cast<std::uint64_t>(draw);
      const std::vector<float> found = round_trip(coding, values);
      for (std::size_t i = 0; i < 512; ++i) {
        sums[i] += (double{found[i]} - double{values[i]}) / draws;
        squares += std::pow(double{found[i]} - double{values[i]}, 2) / draws;
      }
    }
    double bias = 0;
    for (const double sum : sums) bias += sum * sum;
    return of_mean ? bias : squares;
  };
  const double dither = mean_square(Rounding::Dither, false);
  EXPECT_NEAR(mean_square(Rounding::Stochastic, false) / dither, 2.0, 0.1);
  EXPECT_LT(mean_square(Rounding::Stochastic, true), 0.02 * dither);
  EXPECT_NEAR(mean_square(Rounding::Nearest, false) / dither, 1.0, 0.1);
  EXPECT_NEAR(mean_square(Rounding::Nearest, true), mean_square(Rounding::Nearest, false), 1e-6);
}

TEST(FrequencyCodec, DrawsOtherOffsetsForOtherTensorsAndSteps) {
  FrequencyCoding coding = one_unit({16, 16, 16, 16, 16});
  const std::vector<float> values = noisy_map(coding.map);
  const Coded first = encode(coding, values);
  coding.key.tensor = 1;
  EXPECT_NE(encode(coding, values).codes, first.codes);
  coding.key.tensor = 0;
  std::int64_t step = 0;
  coding.key.step = &step;
  EXPECT_EQ(encode(coding, values).codes, first.codes);
  step = 1;
  EXPECT_NE(encode(coding, values).codes, first.codes);
}

TEST(FrequencyCodec, DecodesDroppedBandsToZero) {
  const FrequencyCoding coding = one_unit({64, 0, 0, 0, 0});
  const std::vector<float> found = round_trip(coding, noisy_map(coding.map));
  for (std::size_t i = 0; i < 512; ++i) EXPECT_NEAR(found[i], found[i % 64 / 8 * 8], 1e-6f);
}

TEST(FrequencyCodec, KeepsLargeHalvesFinite) {
  FrequencyCoding coding = one_unit({16, 16, 16, 16, 16});
  coding.type = FloatType::F16;
  std::vector<float> values = noisy_map(coding.map);
  for (float& value : values) value = value > 0 ? 65504.0f : -65504.0f;
  for (const float found : round_trip(coding, values)) EXPECT_LE(std::abs(found), 65504.0f);
}

TEST(FrequencyCodec, TakesMapsWithoutElements) {
  for (const std::int64_t images : {0, 2}) {
    const FrequencyCoding coding = {
        .map = dense_map(images, 3, images == 0 ? 8 : 0, 8, MapOrder::Nchw),
        .bits = coefficient_bits(8, {8, 8, 8, 8, 8})};
    EXPECT_EQ(layout_of(coding).bytes(), 0);
    cpu::encode_frequency(coding, nullptr, nullptr, nullptr);
    cpu::decode_frequency(coding, nullptr, nullptr);
  }
}

TEST(TransformStatistics, HoldTheEnergyOfTheValuesAndTheRangesOfHeaders) {
  for (const int block : {8, 7, 4}) {
    const BlockMap map = dense_map(2, 5, 56, 56, MapOrder::Nhwc);
    const std::vector<float> values = noisy_map(map);
    const TransformStatistics found =
        cpu::transform_statistics(map, FloatType::F32, values.data(), block);
    ASSERT_TRUE(found.measured);
    double energy = 0, wanted = 0;
    for (const float value : values) wanted += double{value} * value;
    for (int band = 0; band < kFrequencyBands; ++band) {
      const BandStatistics& statistics = found.bands[static_cast<std::size_t>(band)];
      energy += statistics.mean_square * band_size(block, band) / coefficients_of(block);
      // Uniform noise has coefficients of variance 1/3, and hundreds of them spread six deviations.
      if (band > 2) {
        EXPECT_NEAR(std::sqrt(statistics.squared_range * 3), 6.0, 1.5);
      }
    }
    EXPECT_NEAR(energy, wanted / static_cast<double>(values.size()), 1e-4);
  }
}

TEST(TransformStatistics, TellGroupsWithoutATransform) {
  std::vector<float> values(600, 2.0f);
  values[300] = 5.0f;
  const BlockMap flat = {.images = 1, .channels = 1, .rows = 1, .columns = 600, .column_stride = 1};
  const TransformStatistics found =
      cpu::transform_statistics(flat, FloatType::F32, values.data(), 0);
  EXPECT_DOUBLE_EQ(found.bands[0].squared_range, 3.0);  // 0, 9 and 0
  EXPECT_NEAR(found.bands[0].mean_square, 4.035, 1e-9);
  EXPECT_FALSE(cpu::transform_statistics({}, FloatType::F32, nullptr, 8).measured);
}

}  // namespace
}  // namespace triaccel::kernels
