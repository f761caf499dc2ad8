#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/compression/frequency/predicted_codec_cases.h"

namespace triaccel::kernels {
namespace {

struct Coded {
  Bytes codes;
  PredictionCounts counts = {};
  std::int32_t not_finite = 0;
};

Coded encode(const PredictedCoding& coding, const std::vector<float>& values) {
  Coded coded{.codes = Bytes(static_cast<std::size_t>(layout_of(coding).bytes()), 0x11)};
  cpu::encode_predicted(coding, stored_as(coding.type, values).data(), coded.codes.data(),
                        &coded.counts, &coded.not_finite);
  return coded;
}

std::vector<float> decode(const PredictedCoding& coding, const Bytes& codes) {
  Bytes values = stored_as(coding.type,
                           std::vector<float>(static_cast<std::size_t>(reach_of(coding.map)), 42));
  cpu::decode_predicted(coding, codes.data(), values.data());
  return read_as(coding.type, values);
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum / static_cast<double>(a.size());
}

/// Of the same bits without prediction.
double plain_error(const PredictedCoding& coding, const std::vector<float>& values) {
  const FrequencyCoding plain = {
      .map = coding.map, .block = coding.block, .bits = coding.bits, .key = coding.key};
  Bytes codes(static_cast<std::size_t>(layout_of(plain).bytes()));
  cpu::encode_frequency(plain, values.data(), codes.data(), nullptr);
  std::vector<float> found(values.size());
  cpu::decode_frequency(plain, codes.data(), found.data());
  return squared_error(found, values);
}

TEST(PredictedCodec, DoesWithFewerBytesWhereBlocksRepeatAndErrsNoMore) {
  PredictedCoding coding = predicted_case(dense_map(4, 3, 64, 64, MapOrder::Nchw));
  const std::vector<float> values = repeated_blocks(coding.map);
  Coded coded = encode(coding, values);
  EXPECT_EQ(coded.counts.blocks, 4 * 3 * 64);
  EXPECT_GT(coded.counts.predicted, coded.counts.blocks / 2);
  EXPECT_GE(coded.counts.candidates, coded.counts.predicted);
  const int block_bits = predicted_block_bits(8, coding.bits, 0, 0);
  const double share = static_cast<double>(coded.counts.saved_bits) /
                       static_cast<double>(coded.counts.blocks * block_bits);
  EXPECT_GT(share, 0.15);

  coding.saved = static_cast<int>(share * 256);
  coded = encode(coding, values);
  const FrequencyCoding plain = {.map = coding.map, .block = coding.block, .bits = coding.bits};
  EXPECT_LT(layout_of(coding).bytes(), layout_of(plain).bytes() * 9 / 10);
  const double limit = plain_error(coding, values);
  EXPECT_LT(squared_error(decode(coding, coded.codes), values), 1.1 * limit);

  coding.saved = 0;  // what predictions free makes codes finer
  EXPECT_LT(squared_error(decode(coding, encode(coding, values).codes), values), 0.75 * limit);
}

TEST(PredictedCodec, PredictsHardlyAnythingInNoiseAndFitsItsRoomAllTheSame) {
  PredictedCoding coding = predicted_case(dense_map(2, 8, 64, 64, MapOrder::Nhwc));
  const std::vector<float> values = noisy_map(coding.map);
  for (const int saved : {0, 20, 80, 255}) {
    coding.saved = saved;
    const Coded coded = encode(coding, values);
    EXPECT_LT(coded.counts.predicted, coded.counts.blocks / 50);
    // A bit less is twice the step.
    EXPECT_LT(squared_error(decode(coding, coded.codes), values), 5 * plain_error(coding, values));
  }
}

TEST(PredictedCodec, IsUnbiasedWhateverItPredictsFrom) {
  constexpr int seeds = 512;
  for (const int saved : {0, 64}) {
    PredictedCoding coding = predicted_case(dense_map(1, 1, 64, 64, MapOrder::Nchw));
    coding.saved = saved;
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
}

TEST(PredictedCodec, TakesMapsOfAnySizeTypeAndOrder) {
  for (const int block : {8, 7, 4})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const std::int64_t side : {1, 5, 13, 31}) {
        PredictedCoding coding =
            predicted_case(dense_map(3, 5, side, side, MapOrder::Nchw), block, type);
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

TEST(PredictedCodec, PredictsBlocksOfEverySize) {
  for (const int block : {8, 7, 4}) {
    const PredictedCoding coding =
        predicted_case(dense_map(1, 2, 12 * block, 12 * block, MapOrder::Nchw), block);
    const std::vector<float> values = repeated_blocks(coding.map, block);
    const Coded coded = encode(coding, values);
    EXPECT_GT(coded.counts.predicted, coded.counts.blocks / 3) << block;
    EXPECT_LT(squared_error(decode(coding, coded.codes), values), 1.1 * plain_error(coding, values))
        << block;
  }
}

TEST(PredictedCodec, DecodesUnitsThatAreNotFiniteToNaNAndPredictsNothingFromThem) {
  const PredictedCoding coding = predicted_case(dense_map(1, 1, 64, 64, MapOrder::Nchw));
  std::vector<float> values = repeated_blocks(coding.map);
  values[9] = NAN;  // in the first eight blocks: rows 0 to 7
  const Coded coded = encode(coding, values);
  EXPECT_EQ(coded.not_finite, 1);
  const std::vector<float> found = decode(coding, coded.codes);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(std::isnan(found[i]), i < 8 * 64) << i;
}

TEST(PredictedCodec, TakesMapsWithoutElements) {
  const PredictedCoding coding = predicted_case(dense_map(0, 3, 8, 8, MapOrder::Nchw));
  EXPECT_TRUE(encode(coding, {}).codes.empty());
}

}  // namespace
}  // namespace triaccel::kernels
