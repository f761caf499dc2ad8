#include "triaccel/kernels/common/float_type_math.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/kernels/common/rounding_oracle.h"

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

/// Every sign, exponent and upper fraction, with lower bits on both sides of each tie.
template <typename Check>
void for_floats_near_ties(Check check) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower :
         {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xf000u, 0xffffu})
      check(std::bit_cast<float>(upper << 16 | lower));
}

TEST(FloatType, WritesTheNearestF16) {
  for_floats_near_ties([](float value) {
    ASSERT_TRUE(same_number(double{f16_to_float(float_to_f16(value))},
                            nearest(double{value}, FloatType::F16)))
        << value;
  });
}

TEST(FloatType, WritesTheNearestBf16) {
  for_floats_near_ties([](float value) {
    ASSERT_TRUE(same_number(double{bf16_to_float(float_to_bf16(value))},
                            nearest(double{value}, FloatType::Bf16)))
        << value;
  });
}

}  // namespace
}  // namespace triaccel::kernels
