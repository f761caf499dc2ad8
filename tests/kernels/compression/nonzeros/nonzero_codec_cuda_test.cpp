#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/nonzeros/nonzero_codec_cases.h"
#include "triaccel/base/error.h"

namespace triaccel::kernels {
namespace {

using namespace nonzero_cases;

class NonZeroCodecOnCuda : public CudaTest {
 protected:
  template <typename Element>
  at::Tensor on_device(const std::vector<Element>& elements) const {
    const auto bytes = static_cast<std::int64_t>(elements.size() * sizeof(Element));
    const at::Tensor host = at::empty({bytes}, at::kByte);
    std::memcpy(host.mutable_data_ptr(), elements.data(), static_cast<std::size_t>(bytes));
    return host.to(device_);
  }
  template <typename Element>
  static std::vector<Element> on_host(const at::Tensor& bytes) {
    const at::Tensor host = bytes.cpu().contiguous();
    std::vector<Element> elements(static_cast<std::size_t>(host.numel()) / sizeof(Element));
    std::memcpy(elements.data(), host.const_data_ptr(), static_cast<std::size_t>(host.numel()));
    return elements;
  }

  /// The mask, the records and the values of the CPU, bit by bit. `shift` bytes keep values from
  /// lying at a multiple of 16.
  void expect_cpu(NonZeroCoding coding, const std::vector<float>& values, const Bits& given = {},
                  std::int64_t shift = 0) {
    const std::string about =
        text(coding.count, " elements, ", coding.eighths, " eighths, type ",
             static_cast<int>(coding.type), ", rounding ", static_cast<int>(coding.rounding));
    const std::int64_t host_step = 77;
    coding.key = {.seed = 0x123456789abcdef, .tensor = 9, .step = &host_step};
    const Bytes stored = stored_as(coding.type, values);
    const Coded wanted = encoded_on_cpu(coding, stored, given);
    const Bytes wanted_values = decoded_on_cpu(coding, wanted);

    const at::TensorOptions bytes = at::TensorOptions(at::kByte).device(device_);
    const at::Tensor step = at::full({1}, 77, bytes.dtype(at::kLong));
    coding.key.step = step.const_data_ptr<std::int64_t>();
    const auto size = static_cast<std::int64_t>(stored.size());
    const at::Tensor room = at::full({size + shift}, 0xaa, bytes);
    room.narrow(0, shift, size).copy_(on_device(stored));
    const at::Tensor mask =
        given.empty() ? at::full({mask_bytes(coding.count)}, 0xaa, bytes) : on_device(given);
    const at::Tensor records =
        at::full({static_cast<std::int64_t>(wanted.records.size())}, 0xaa, bytes);
    const at::Tensor count = at::zeros({1}, bytes.dtype(at::kInt));
    auto* words = static_cast<std::uint32_t*>(mask.mutable_data_ptr());
    auto* begin = room.mutable_data_ptr<std::uint8_t>() + shift;
    cuda::encode_nonzeros(
        coding, begin, given.empty() ? NonZeroMask{.written = words} : NonZeroMask{.given = words},
        records.mutable_data_ptr(), count.mutable_data_ptr<std::int32_t>(), stream());
    ASSERT_EQ(on_host<std::uint32_t>(mask), wanted.mask) << about;
    ASSERT_EQ(on_host<std::uint8_t>(records), wanted.records) << about;
    EXPECT_EQ(count.item<std::int32_t>(), wanted.not_finite) << about;
    room.fill_(0xaa);
    cuda::decode_nonzeros(coding, words, records.const_data_ptr(), begin, stream());
    const std::vector<float> found =
        read_as(coding.type, on_host<std::uint8_t>(room.narrow(0, shift, size)));
    const std::vector<float> expected = read_as(coding.type, wanted_values);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_TRUE(same_number(found[i], expected[i])) << about << ", element " << i;
    EXPECT_TRUE(room.narrow(0, 0, shift).eq(0xaa).all().item<bool>());
  }
};

TEST_F(NonZeroCodecOnCuda, GivesTheBitsOfTheCpuAtEveryWidth) {
  for (int eighths = kMinNonZeroEighths; eighths <= kMaxNonZeroEighths; ++eighths)
    for (const Rounding rounding : {Rounding::Dither, Rounding::Stochastic, Rounding::Nearest})
      expect_cpu({.count = 7300, .eighths = eighths, .rounding = rounding}, awkward_values(7300));
}

TEST_F(NonZeroCodecOnCuda, GivesTheBitsOfTheCpuAtOddSizesInEveryType) {
  for (const std::int64_t count : odd_counts())
    for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
      for (const int eighths : {8, 16, 19, 64})
        expect_cpu({.type = type, .count = count, .eighths = eighths}, awkward_values(count));
}

TEST_F(NonZeroCodecOnCuda, CodesWhateverAMaskSays) {
  for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
    expect_cpu({.type = type, .count = 7300}, awkward_values(7300), every_third(7300));
}

TEST_F(NonZeroCodecOnCuda, TakesValuesThatLieAnywhere) {
  for (const FloatType type : {FloatType::F32, FloatType::Bf16})
    expect_cpu({.type = type, .count = 5000, .eighths = 20}, awkward_values(5000), {}, 4);
}

TEST_F(NonZeroCodecOnCuda, CountsAndMarksGroupsThatAreNotFinite) {
  std::vector<float> values = awkward_values(7300);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[3200] = -std::numeric_limits<float>::infinity();
  values[7299] = std::numeric_limits<float>::infinity();
  for (const FloatType type : {FloatType::F32, FloatType::Bf16, FloatType::F16})
    expect_cpu({.type = type, .count = 7300, .eighths = 22}, values);
}

TEST_F(NonZeroCodecOnCuda, GivesTheBitsOfTheCpuOnAnActivation) {
  expect_cpu({.count = 3'000'000}, rectified_values(3'000'000));
}

}  // namespace
}  // namespace triaccel::kernels
