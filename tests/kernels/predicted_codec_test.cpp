#include "triaccel/kernels/predicted_codec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/frequency_codec_cases.h"

namespace triaccel::kernels {
namespace {

struct Coded {
  Bytes codes;
  PredictionCounts counts = {};
  std::int32_t not_finite = 0;
};

Coded encode(const PredictedCoding& coding, const std::vector<float>& values) {
  Coded coded;
  coded.codes = cpu::encode_predicted(coding, stored_as(coding.type, values).data(), coded.counts,
                                      &coded.not_finite);
  return coded;
}

std::vector<float> decode(const PredictedCoding& coding, const Bytes& codes) {
  Bytes values = stored_as(coding.type,
                           std::vector<float>(static_cast<std::size_t>(reach_of(coding.map)), 42));
  cpu::decode_predicted(coding, codes.data(), values.data());
  return read_as(coding.type, values);
}

PredictedCoding coding_of(const BlockMap& map, int block = 8, FloatType type = FloatType::F32) {
  return {.map = map,
          .type = type,
          .block = block,
          .bits = coefficient_bits(block, {56, 40, 40, 32, 32}),
          .key = {.seed = 5}};
}

/// Maps of 64 x 64 whose blocks are one of four patterns, each time stronger or weaker and with a
/// little noise.
std::vector<float> repeated_blocks(const BlockMap& map) {
  std::vector<float> values(static_cast<std::size_t>(reach_of(map)));
  for_each_place(map, [&](std::int64_t place, std::int64_t number, std::int64_t channel) {
    const std::int64_t row = number / map.columns % map.rows, column = number % map.columns;
    const std::int64_t block = row / 8 * 8 + column / 8;
    const std::int64_t pattern = channel * 4 + block % 4;
    const float strength = 1.0f + 0.3f * uniform(7, block + 64 * channel);
    values[static_cast<std::size_t>(place)] =
        strength * uniform(8, pattern * 64 + row % 8 * 8 + column % 8) + 0.01f * uniform(9, number);
  });
  return values;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum / static_cast<double>(a.size());
}

TEST(PredictedCodec, SavesBytesWhereBlocksRepeatAndErrsAsWithoutPrediction) {
  const PredictedCoding coding = coding_of(dense_map(2, 3, 64, 64, MapOrder::Nchw));
  const std::vector<float> values = repeated_blocks(coding.map);
  const Coded coded = encode(coding, values);
  EXPECT_EQ(coded.counts.blocks, 2 * 3 * 64);
  EXPECT_GT(coded.counts.predicted, coded.counts.blocks / 2);
  EXPECT_GE(coded.counts.candidates, coded.counts.predicted);
  EXPECT_LT(coded.counts.bytes, coded.counts.plain_bytes * 3 / 4);
  EXPECT_EQ(static_cast<std::int64_t>(coded.codes.size()), coded.counts.bytes + 3 * 8);

  const FrequencyCoding plain = {
      .map = coding.map, .block = coding.block, .bits = coding.bits, .key = coding.key};
  Bytes codes(static_cast<std::size_t>(layout_of(plain).bytes()));
  cpu::encode_frequency(plain, values.data(), codes.data(), nullptr);
  std::vector<float> without(values.size());
  cpu::decode_frequency(plain, codes.data(), without.data());
  EXPECT_NEAR(squared_error(decode(coding, coded.codes), values) / squared_error(without, values),
              1.0, 0.05);
}

TEST(PredictedCodec, PredictsHardlyAnythingInNoise) {
  const PredictedCoding coding = coding_of(dense_map(2, 8, 64, 64, MapOrder::Nhwc));
  const Coded coded = encode(coding, noisy_map(coding.map));
  EXPECT_LT(coded.counts.predicted, coded.counts.blocks / 50);
  EXPECT_LE(coded.counts.bytes, coded.counts.plain_bytes + coded.counts.blocks / 8 + 16);
}

TEST(PredictedCodec, IsUnbiasedWhateverItPredictsFrom) {
  constexpr int seeds = 512;
  PredictedCoding coding = coding_of(dense_map(1, 1, 64, 64, MapOrder::Nchw));
  const std::vector<float> values = repeated_blocks(coding.map);
  std::vector<double> sums(values.size()), squares(values.size());
  std::int64_t predicted = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    coding.key.seed = static_cast<std::uint64_t>(seed);
    const Coded coded = encode(coding, values);
    predicted += coded.counts.predicted;
    const std::vector<float> found = decode(coding, coded.codes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = double{found[i]} - values[i];
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  EXPECT_GT(predicted, seeds * 64 / 2);
  double largest = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double deviation = sums[i] / std::sqrt(squares[i]);  // of a mean without bias: 1
    largest = std::max(largest, std::abs(deviation));
    all += deviation * deviation / static_cast<double>(values.size());
  }
  EXPECT_LT(largest, 5);
  EXPECT_NEAR(all, 1, 0.1);
}

TEST(PredictedCodec, TakesMapsOfAnySizeTypeAndOrder) {
  for (const int block : {8, 7, 4})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const std::int64_t side : {1, 5, 13, 31}) {
        PredictedCoding coding =
            coding_of(dense_map(3, 5, side, side, MapOrder::Nchw), block, type);
        const std::vector<float> values = read_as(type, stored_as(type, noisy_map(coding.map)));
        const Coded nchw = encode(coding, values);
        const std::vector<float> found = decode(coding, nchw.codes);
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(found[i], values[i], 0.5) << "element " << i << " of " << side;
        coding.map = dense_map(3, 5, side, side, MapOrder::Nhwc);
        EXPECT_EQ(encode(coding, read_as(type, stored_as(type, noisy_map(coding.map)))).codes,
                  nchw.codes);
      }
}

TEST(PredictedCodec, DecodesUnitsThatAreNotFiniteToNaNAndPredictsNothingFromThem) {
  const PredictedCoding coding = coding_of(dense_map(1, 1, 64, 64, MapOrder::Nchw));
  std::vector<float> values = repeated_blocks(coding.map);
  values[9] = NAN;  // in the first eight blocks: rows 0 to 7
  const Coded coded = encode(coding, values);
  EXPECT_EQ(coded.not_finite, 1);
  const std::vector<float> found = decode(coding, coded.codes);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(std::isnan(found[i]), i < 8 * 64) << i;
}

TEST(PredictedCodec, TakesMapsWithoutElements) {
  const PredictedCoding coding = coding_of(dense_map(0, 3, 8, 8, MapOrder::Nchw));
  EXPECT_TRUE(encode(coding, {}).codes.empty());
}

}  // namespace
}  // namespace triaccel::kernels
