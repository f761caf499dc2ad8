#include "triaccel/kernels/float_type_math.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace triaccel::kernels {
namespace {

TEST(FloatType, ReadsEveryF16AsTorchDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float ours = f16_to_float(static_cast<std::uint16_t>(bits));
    const float torchs =
        static_cast<float>(c10::Half(static_cast<std::uint16_t>(bits), c10::Half::from_bits()));
    if (std::isnan(torchs))
      ASSERT_TRUE(std::isnan(ours)) << bits;
    else
      ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(torchs)) << bits;
  }
}

TEST(FloatType, ReadsEveryBf16AsTheUpperHalfOfAFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(bf16_to_float(static_cast<std::uint16_t>(bits))),
              bits << 16);
}

}  // namespace
}  // namespace triaccel::kernels
