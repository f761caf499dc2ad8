#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/codec_map_device.h"
#include "tests/kernels/compression/frequency/frequency_codec_cases.h"

namespace triaccel::kernels {
namespace {

class FrequencyCodecOnCuda : public CudaTest {
 protected:
  /// Codes, decoded values and counts equal those of the CPU. `shift` bytes off where memory
  /// begins.
  void expect_oracle(FrequencyCoding coding, const std::vector<float>& numbers, int shift = 0) {
    const Bytes values = stored_as(coding.type, numbers);
    const std::int64_t step = 7;
    const at::Tensor device_step = on_device(step, device_);
    coding.key.step = &step;
    Bytes codes(static_cast<std::size_t>(layout_of(coding).bytes()), 0x11), decoded(values.size());
    std::int32_t not_finite = 0;
    cpu::encode_frequency(coding, values.data(), codes.data(), &not_finite);
    cpu::decode_frequency(coding, codes.data(), decoded.data());

    coding.key.step = pointer<std::int64_t>(device_step);
    Bytes shifted(static_cast<std::size_t>(shift));
    shifted.insert(shifted.end(), values.begin(), values.end());
    const at::Tensor memory = moved(shifted);
    const at::Tensor found = at::full({static_cast<std::int64_t>(codes.size())}, 0x77,
                                      at::TensorOptions(at::kByte).device(device_));
    const at::Tensor count = at::zeros({1}, at::TensorOptions(at::kInt).device(device_));
    const at::Tensor back = at::zeros_like(memory);
    cuda::encode_frequency(coding, pointer<char>(memory) + shift, pointer<std::uint8_t>(found),
                           pointer<std::int32_t>(count), stream());
    cuda::decode_frequency(coding, pointer<std::uint8_t>(found), pointer<char>(back) + shift, {},
                           stream());
    ASSERT_EQ(fetched(found), codes) << described(coding);
    ASSERT_EQ(count.item<int>(), not_finite) << described(coding);
    const Bytes returned = fetched(back);
    ASSERT_TRUE(same_numbers(read_as(coding.type, Bytes(returned.begin() + shift, returned.end())),
                             read_as(coding.type, decoded)))
        << described(coding);
  }
};

TEST_F(FrequencyCodecOnCuda, GivesTheBitsOfTheCpu) {
  for (const FrequencyCoding& coding : awkward_codings())
    expect_oracle(coding, awkward_map(coding.map));
}

TEST_F(FrequencyCodecOnCuda, GivesTheBitsOfTheCpuInBatchesOfEveryTypeAndOrder) {
  for (const int block : {8, 7, 4})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc})
        for (const std::int64_t side : {56, 30}) {
          const FrequencyCoding coding = {.map = dense_map(6, 96, side, side, order),
                                          .type = type,
                                          .block = block,
                                          .bits = coefficient_bits(block, {60, 37, 27, 18, 11}),
                                          .key = {.seed = 3, .tensor = 9}};
          expect_oracle(coding, noisy_map(coding.map));
        }
}

TEST_F(FrequencyCodecOnCuda, GivesTheBitsOfTheCpuWhereRowsAreMovedInPiecesOfAnyWidth) {
  // Rows of 16, 8, 4 and 2 bytes' alignment, maps of one block's width and of several, channels and
  // positions that fill no tile.
  for (const int block : {8, 7, 4})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16})
      for (const std::int64_t side : {4, 7, 8, 14, 18, 28, 33, 56, 64})
        for (const std::int64_t channels : {5, 32, 40}) {
          const FrequencyCoding coding = {.map = dense_map(3, channels, side, side, MapOrder::Nchw),
                                          .type = type,
                                          .block = block,
                                          .bits = coefficient_bits(block, {56, 36, 25, 17, 9}),
                                          .key = {.seed = 8, .tensor = 2}};
          expect_oracle(coding, noisy_map(coding.map));
        }
}

TEST_F(FrequencyCodecOnCuda, GivesTheBitsOfTheCpuOfMoreTilesThanRunAtOnce) {
  // Rows of 2, 4 and 16 bytes' alignment, whole blocks and not.
  for (const int block : {8, 7, 4})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16})
      for (const std::int64_t side : {29, 30, 32}) {
        const FrequencyCoding coding = {.map = dense_map(64, 128, side, side, MapOrder::Nchw),
                                        .type = type,
                                        .block = block,
                                        .bits = coefficient_bits(block, {56, 36, 25, 17, 9}),
                                        .key = {.seed = 8, .tensor = 5}};
        ASSERT_GE(layout_of(coding).tiles, 512);
        expect_oracle(coding, noisy_map(coding.map));
      }
}

TEST_F(FrequencyCodecOnCuda, WritesWhatAMapMakesOfItsElements) {
  for (const int block : {8, 7, 4})
    for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc})
      for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
        for (const map_cases::MapKind kind : map_cases::kMapKinds)
          for (const std::int64_t channels : {64, 40}) {  // whole words of a gate, and not
            const FrequencyCoding coding = {.map = dense_map(3, channels, 13, 14, order),
                                            .type = type,
                                            .block = block,
                                            .bits = coefficient_bits(block, {56, 36, 28, 20, 12})};
            const map_cases::MapCase made(kind, 3, channels, reach_of(coding.map));
            const Bytes values = stored_as(type, noisy_map(coding.map));
            Bytes codes(static_cast<std::size_t>(layout_of(coding).bytes())), wanted(values.size());
            cpu::encode_frequency(coding, values.data(), codes.data(), nullptr);
            cpu::decode_frequency(coding, codes.data(), wanted.data(), made.map());
            const map_cases::DeviceMap on_gpu(made, device_);
            const at::Tensor device_codes = moved(codes), room = at::zeros_like(moved(values));
            cuda::decode_frequency(coding, pointer<std::uint8_t>(device_codes), pointer<char>(room),
                                   on_gpu.map(), stream());
            const std::vector<float> found = read_as(type, fetched(room));
            const std::vector<float> expected = read_as(type, wanted);
            for (std::size_t i = 0; i < found.size(); ++i)
              ASSERT_TRUE(map_cases::agrees(found[i], expected[i], kind.activation, type))
                  << described(coding) << ", element " << i << " is " << found[i] << ", not "
                  << expected[i];
          }
}

TEST_F(FrequencyCodecOnCuda, GivesTheBitsOfTheCpuForUnitsThatAreNotFinite) {
  for (const int block : {8, 7, 4})
    for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc}) {
      const FrequencyCoding coding = {.map = dense_map(64, 40, 8, 8, order),
                                      .block = block,
                                      .bits = coefficient_bits(block, {48, 30, 24, 17, 12})};
      std::vector<float> values = noisy_map(coding.map);
      values[5] = NAN;
      values[2000] = INFINITY;
      values[70001] = -INFINITY;
      values[90000] = 3e38f;
      expect_oracle(coding, values);
    }
}

TEST_F(FrequencyCodecOnCuda, TakesMapsThatLieAnywhere) {
  for (const int block : {8, 7, 4})
    for (const MapOrder order : {MapOrder::Nchw, MapOrder::Nhwc})
      for (const FloatType type : {FloatType::F32, FloatType::Bf16})
        for (const int shift : {4, 8, 12}) {
          const FrequencyCoding coding = {.map = dense_map(3, 64, 28, 28, order),
                                          .type = type,
                                          .block = block,
                                          .bits = coefficient_bits(block, {48, 30, 24, 17, 12})};
          expect_oracle(coding, noisy_map(coding.map), shift);
        }
}

TEST_F(FrequencyCodecOnCuda, TakesMapsWithoutElements) {
  const FrequencyCoding coding = {.map = dense_map(0, 3, 8, 8, MapOrder::Nchw),
                                  .bits = coefficient_bits(8, {8, 8, 8, 8, 8})};
  cuda::encode_frequency(coding, nullptr, nullptr, nullptr, stream());
  cuda::decode_frequency(coding, nullptr, nullptr, {}, stream());
}

}  // namespace
}  // namespace triaccel::kernels
