#include "triaccel/kernels/compression/groups/group_codec.h"

#include <limits>

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/codec_map_device.h"
#include "tests/kernels/compression/groups/group_codec_cases.h"
#include "triaccel/base/error.h"

namespace triaccel::kernels {
namespace {

using namespace group_cases;

class GroupCodecOnCuda : public CudaTest {
 protected:
  at::Tensor on_device(const Bytes& bytes) const {
    return at::from_blob(const_cast<std::uint8_t*>(bytes.data()),
                         {static_cast<std::int64_t>(bytes.size())}, at::kByte)
        .to(device_);
  }
  static Bytes on_host(const at::Tensor& bytes) {
    const at::Tensor host = bytes.cpu().contiguous();
    const auto* first = host.const_data_ptr<std::uint8_t>();
    return Bytes(first, first + host.numel());
  }

  /// The codes and the values of the CPU, bit by bit. `shift` bytes keep values from lying at a
  /// multiple of 16.
  void expect_cpu(GroupCoding coding, const std::vector<float>& values, std::int64_t shift = 0) {
    const at::Tensor step = at::full({1}, 77, at::TensorOptions(at::kLong).device(device_));
    const std::int64_t host_step = 77;
    coding.key = {.seed = 4, .tensor = 9, .step = &host_step};
    const Bytes stored = stored_as(coding.type, values);
    std::int32_t wanted_count = 2;
    const Bytes wanted = encoded_on_cpu(coding, stored, &wanted_count);
    const Bytes wanted_values = decoded_on_cpu(coding, wanted);

    coding.key.step = step.const_data_ptr<std::int64_t>();
    const at::TensorOptions bytes = at::TensorOptions(at::kByte).device(device_);
    const auto size = static_cast<std::int64_t>(stored.size());
    const at::Tensor room = at::full({size + shift}, 0xaa, bytes);
    room.narrow(0, shift, size).copy_(on_device(stored));
    at::Tensor codes = at::full({static_cast<std::int64_t>(wanted.size())}, 0xaa, bytes);
    const at::Tensor count = at::full({1}, 2, bytes.dtype(at::kInt));
    auto* begin = room.mutable_data_ptr<std::uint8_t>() + shift;
    cuda::encode_groups(coding, begin, codes.mutable_data_ptr(),
                        count.mutable_data_ptr<std::int32_t>(), stream());
    ASSERT_EQ(on_host(codes), wanted) << described(coding);
    EXPECT_EQ(count.item<std::int32_t>(), wanted_count);
    room.fill_(0xaa);
    cuda::decode_groups(coding, codes.const_data_ptr(), begin, {}, {}, stream());
    const std::vector<float> found = read_as(coding.type, on_host(room.narrow(0, shift, size)));
    const std::vector<float> expected = read_as(coding.type, wanted_values);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_TRUE(same_number(found[i], expected[i])) << described(coding) << ", element " << i;
  }

  static std::string described(const GroupCoding& coding) {
    return text(coding.count, " elements, ", coding.eighths, " eighths, type ",
                static_cast<int>(coding.type), ", rounding ", static_cast<int>(coding.rounding));
  }
};

TEST_F(GroupCodecOnCuda, GivesTheBitsOfTheCpuAtEveryWidth) {
  for (int eighths = kMinGroupEighths; eighths <= kMaxGroupEighths; ++eighths)
    for (const Rounding rounding : {Rounding::Dither, Rounding::Stochastic, Rounding::Nearest})
      expect_cpu({.count = 9000, .eighths = eighths, .rounding = rounding}, awkward_values(9000));
}

TEST_F(GroupCodecOnCuda, GivesTheBitsOfTheCpuAtOddSizesInEveryType) {
  for (const std::int64_t count : odd_counts())
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const int eighths : {16, 23, 60, 64})
        expect_cpu({.type = type, .count = count, .eighths = eighths}, awkward_values(count));
}

TEST_F(GroupCodecOnCuda, WritesWhatAMapMakesOfItsElements) {
  struct Sizes {
    std::int64_t images, channels, pixels;
  };
  for (const Sizes s : {Sizes{3, 36, 35}, Sizes{2, 33, 30}, Sizes{5, 128, 49}, Sizes{3, 64, 35},
                        Sizes{5, 8, 63}, Sizes{2, 24, 64}, Sizes{2, 300, 14}})
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const std::int64_t channel_stride : {std::int64_t{1}, s.pixels})
        for (const map_cases::MapKind kind : map_cases::kMapKinds) {
          const std::int64_t count = s.images * s.channels * s.pixels;
          const GroupCoding coding = {.type = type, .count = count, .eighths = 43};
          const ChannelOrder order = {s.channels, channel_stride, s.channels * s.pixels};
          const map_cases::MapCase made(kind, s.images, s.channels, count);
          std::vector<float> values;
          for (std::int64_t i = 0; i < count; ++i)
            values.push_back(unit_float(random_words(9, static_cast<std::uint64_t>(i)).words[1]));
          const Bytes codes = encoded_on_cpu(coding, stored_as(type, values));
          Bytes wanted(stored_as(type, values).size());
          cpu::decode_groups(coding, codes.data(), wanted.data(), made.map(), order);
          const map_cases::DeviceMap on_gpu(made, device_);
          const at::Tensor device_codes = on_device(codes);
          const at::Tensor room = at::zeros({static_cast<std::int64_t>(wanted.size())},
                                            at::TensorOptions(at::kByte).device(device_));
          cuda::decode_groups(coding, device_codes.const_data_ptr(), room.mutable_data_ptr(),
                              on_gpu.map(), order, stream());
          const std::vector<float> found = read_as(type, on_host(room));
          const std::vector<float> expected = read_as(type, wanted);
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_TRUE(map_cases::agrees(found[i], expected[i], kind.activation, type))
                << described(coding) << ", element " << i << " is " << found[i] << ", not "
                << expected[i];
        }
}

TEST_F(GroupCodecOnCuda, TakesValuesThatLieAnywhere) {
  for (const FloatType type : {FloatType::F32, FloatType::Bf16})
    expect_cpu({.type = type, .count = 5000, .eighths = 20}, awkward_values(5000), 4);
}

TEST_F(GroupCodecOnCuda, DecodesGroupsThatAreNotFiniteToNaN) {
  std::vector<float> values = awkward_values(9000);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[3000] = -std::numeric_limits<float>::infinity();
  values[8999] = std::numeric_limits<float>::infinity();
  for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
    expect_cpu({.type = type, .count = 9000, .eighths = 22}, values);
}

TEST_F(GroupCodecOnCuda, GivesTheBitsOfTheCpuOnAnActivation) {
  expect_cpu({.type = FloatType::Bf16, .count = 3'000'000, .eighths = 19},
             awkward_values(3'000'000));
}

}  // namespace
}  // namespace triaccel::kernels
