#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/ops/compression/codec_map.h"
#include "triaccel/ops/compression/group_codec.h"

namespace triaccel {
namespace {

TEST(CodecRowsOnCuda, AreNormalisedAndPassedThroughGeluAsOnTheCpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  at::manual_seed(4);
  const at::Device device(at::kCUDA, 0);
  for (const std::int64_t channels : {64, 50, 200, 24}) {
    const at::Tensor values = at::randn({3, 17, channels}) * 3;
    const at::Tensor mean = at::randn({3 * 17}), deviation = at::rand({3 * 17}) + 0.2;
    const at::Tensor weight = at::randn({channels}), bias = at::randn({channels});
    const kernels::GroupCoding coding{.eighths = 44};
    const at::Tensor codes = encode_groups(values, coding);
    for (const bool norm : {true, false})
      for (const kernels::Gelu gelu :
           {kernels::Gelu::None, kernels::Gelu::Erf, kernels::Gelu::Tanh})
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
          const auto decoded = [&](at::Device on) {
            CodecMap map;
            if (norm) map = {mean.to(on), deviation.to(on), weight.to(on), bias.to(on)};
            map.by_rows = norm;
            map.gelu = gelu;
            return decode_groups(codes.to(on), values.sizes(), values.strides(), type, coding, map)
                .to(at::kCPU, at::kFloat);
          };
          // Only GELU's last bits are the device's own.
          const double share = type == at::kFloat ? 1e-5 : 1e-2, least = 1e-5;
          const bool exact = gelu == kernels::Gelu::None;
          EXPECT_TRUE(at::allclose(decoded(device), decoded(at::kCPU), exact ? 0 : share,
                                   exact ? 0 : least))
              << channels << " " << norm << " " << static_cast<int>(gelu);
        }
  }
}

}  // namespace
}  // namespace triaccel
