#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/frequency/predicted_codec_cases.h"

namespace triaccel::kernels {
namespace {

class PredictedCodecOnCuda : public CudaTest {
 protected:
  /// Codes, decoded values and counts equal those of the CPU; returns the counts.
  PredictionCounts expect_oracle(PredictedCoding coding, const std::vector<float>& numbers) {
    const std::string what =
        described(
            {.map = coding.map, .type = coding.type, .block = coding.block, .bits = coding.bits}) +
        text(", saved ", coding.saved);
    const Bytes values = stored_as(coding.type, numbers);
    const std::int64_t step = 7;
    const at::Tensor device_step = on_device(step, device_);
    coding.key.step = &step;
    Bytes codes(static_cast<std::size_t>(layout_of(coding).bytes()), 0x11), decoded(values.size());
    PredictionCounts counts = {};
    std::int32_t not_finite = 0;
    cpu::encode_predicted(coding, values.data(), codes.data(), &counts, &not_finite);
    cpu::decode_predicted(coding, codes.data(), decoded.data());

    coding.key.step = pointer<std::int64_t>(device_step);
    const at::Tensor memory = moved(values);
    const at::Tensor found = at::full({static_cast<std::int64_t>(codes.size())}, 0x77,
                                      at::TensorOptions(at::kByte).device(device_));
    const at::Tensor lost = at::zeros({1}, at::TensorOptions(at::kInt).device(device_));
    const at::Tensor counted = on_device(PredictionCounts{}, device_);
    const at::Tensor back = at::zeros_like(memory);
    cuda::encode_predicted(coding, pointer<char>(memory), pointer<std::uint8_t>(found),
                           pointer<PredictionCounts>(counted), pointer<std::int32_t>(lost),
                           stream());
    cuda::decode_predicted(coding, pointer<std::uint8_t>(found), pointer<char>(back), stream());
    EXPECT_EQ(fetched(found), codes) << what;
    EXPECT_EQ(lost.item<int>(), not_finite) << what;
    EXPECT_EQ(from_device<PredictionCounts>(counted), counts) << what;
    EXPECT_TRUE(same_numbers(read_as(coding.type, fetched(back)), read_as(coding.type, decoded)))
        << what;
    return counts;
  }
};

TEST_F(PredictedCodecOnCuda, GivesTheBitsOfTheCpuForAwkwardMaps) {
  for (const FrequencyCoding& plain : awkward_codings())
    for (const int saved : {0, 40, 255})
      expect_oracle({.map = plain.map,
                     .type = plain.type,
                     .block = plain.block,
                     .bits = plain.bits,
                     .saved = saved,
                     .key = plain.key},
                    awkward_map(plain.map));
}

TEST_F(PredictedCodecOnCuda, GivesTheBitsOfTheCpuWhereBlocksRepeat) {
  for (const int block : {8, 7, 4})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc})
        for (const int saved : {0, 32, 96}) {
          PredictedCoding coding = predicted_case(dense_map(3, 24, 60, 56, order), block, type);
          coding.saved = saved;
          const PredictionCounts counts = expect_oracle(coding, repeated_blocks(coding.map, block));
          EXPECT_GT(counts.predicted, 0);
        }
}

TEST_F(PredictedCodecOnCuda, GivesTheBitsOfTheCpuForUnitsThatAreNotFinite) {
  for (const int block : {8, 7, 4}) {
    const PredictedCoding coding = predicted_case(dense_map(64, 40, 8, 8, MapOrder::Nhwc), block);
    std::vector<float> values = repeated_blocks(coding.map, block);
    values[5] = NAN;
    values[2000] = INFINITY;
    values[70001] = -INFINITY;
    values[90000] = 3e38f;
    expect_oracle(coding, values);
  }
}

TEST_F(PredictedCodecOnCuda, TakesMapsWithoutElements) {
  const PredictedCoding coding = predicted_case(dense_map(0, 3, 8, 8, MapOrder::Nchw));
  cuda::encode_predicted(coding, nullptr, nullptr, nullptr, nullptr, stream());
  cuda::decode_predicted(coding, nullptr, nullptr, stream());
}

}  // namespace
}  // namespace triaccel::kernels
