#include "bench/papers/baseline_codecs/split_codec.h"
#include "bench/papers/baseline_codecs/three_pass_codec.h"
#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/compression/groups/group_codec_cases.h"
#include "triaccel/base/error.h"

namespace triaccel::kernels {
namespace {

using namespace group_cases;

constexpr FloatType kTypes[] = {FloatType::F32, FloatType::Bf16, FloatType::F16};

/// Values and room for their codes, on both devices.
struct BothDevices {
  at::Tensor values, codes, decoded;
  at::Tensor cuda_values, cuda_codes, cuda_decoded, scratch, count;
  std::int32_t cpu_count = 0;

  BothDevices(const Bytes& stored, std::int64_t code_bytes, std::int64_t scratch_numbers,
              at::Device device)
      : values(at::from_blob(const_cast<std::uint8_t*>(stored.data()),
                             {static_cast<std::int64_t>(stored.size())}, at::kByte)
                   .clone()),
        codes(at::zeros({code_bytes}, at::kByte)),
        decoded(at::zeros_like(values)),
        cuda_values(values.to(device)),
        cuda_codes(at::full_like(codes, 0xaa, at::TensorOptions(device))),
        cuda_decoded(at::zeros_like(cuda_values)),
        scratch(at::empty({scratch_numbers}, at::TensorOptions(at::kFloat).device(device))),
        count(at::zeros({1}, at::TensorOptions(at::kInt).device(device))) {}

  void expect_equal(FloatType type, const std::string& what) const {
    EXPECT_TRUE(at::equal(codes, cuda_codes.cpu())) << what;
    const at::ScalarType stored = type == FloatType::F32    ? at::kFloat
                                  : type == FloatType::Bf16 ? at::kBFloat16
                                                            : at::kHalf;
    const at::Tensor cpu = decoded.view(stored), cuda = cuda_decoded.cpu().view(stored);
    EXPECT_TRUE(at::logical_or(cpu == cuda, cpu.isnan() & cuda.isnan()).all().item<bool>()) << what;
    EXPECT_EQ(cpu_count, count.item<std::int32_t>()) << what;
  }
};

class BaselineCodecsOnCuda : public CudaTest {};

TEST_F(BaselineCodecsOnCuda, GiveTheBitsOfTheCpuInAnyNumberOfPasses) {
  for (const std::int64_t count : odd_counts())
    for (const FloatType type : kTypes)
      for (const int bits : {2, 4})
        for (const CodingPasses passes :
             {CodingPasses::One, CodingPasses::Two, CodingPasses::Three}) {
          const std::int64_t samples = count % 7 == 0 && count > 0 ? 7 : 1;
          const PlainGroupCoding coding = {.type = type,
                                           .count = count,
                                           .samples = samples,
                                           .bits = bits,
                                           .key = {.seed = 1, .tensor = 2},
                                           .passes = passes};
          const std::int64_t groups = sample_groups(samples, count);
          BothDevices at(stored_as(type, awkward_values(count)), plain_group_bytes(groups, bits),
                         groups * kPlainGroupScratch, device_);
          cpu::encode_plain_groups(coding, at.values.data_ptr(), at.codes.data_ptr(),
                                   &at.cpu_count);
          cpu::decode_plain_groups(coding, at.codes.data_ptr(), at.decoded.data_ptr());
          cuda::encode_plain_groups(coding, at.cuda_values.data_ptr(), at.cuda_codes.data_ptr(),
                                    at.scratch.mutable_data_ptr<float>(),
                                    at.count.mutable_data_ptr<std::int32_t>(), stream());
          cuda::decode_plain_groups(coding, at.cuda_codes.data_ptr(), at.cuda_decoded.data_ptr(),
                                    stream());
          at.expect_equal(type, text(count, " elements, ", bits, " bits, passes ",
                                     static_cast<int>(passes), ", type ", static_cast<int>(type)));
        }
}

TEST_F(BaselineCodecsOnCuda, SplitMapsAsTheCpuDoes) {
  for (const std::int64_t side : {1, 4, 7, 8, 14, 33})
    for (const FloatType type : kTypes) {
      const SplitCoding coding = {.type = type,
                                  .maps = 37,
                                  .rows = side,
                                  .columns = side + 1,
                                  .key = {.seed = 1, .tensor = 2}};
      const std::int64_t count = coding.maps * coding.rows * coding.columns;
      BothDevices at(stored_as(type, awkward_values(count)),
                     split_bytes(coding.maps, coding.rows, coding.columns),
                     coding.maps * kSplitScratch, device_);
      cpu::encode_split(coding, at.values.data_ptr(), at.codes.data_ptr(), &at.cpu_count);
      cpu::decode_split(coding, at.codes.data_ptr(), at.decoded.data_ptr());
      cuda::encode_split(coding, at.cuda_values.data_ptr(), at.cuda_codes.data_ptr(),
                         at.scratch.mutable_data_ptr<float>(),
                         at.count.mutable_data_ptr<std::int32_t>(), stream());
      cuda::decode_split(coding, at.cuda_codes.data_ptr(), at.cuda_decoded.data_ptr(), stream());
      at.expect_equal(type, text(side, " a side, type ", static_cast<int>(type)));
    }
}

}  // namespace
}  // namespace triaccel::kernels
