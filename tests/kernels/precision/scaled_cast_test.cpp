#include "triaccel/kernels/precision/scaled_cast.h"

#include <gtest/gtest.h>

#include "tests/kernels/common/rounding_oracle.h"
#include "triaccel/kernels/precision/layer_scale.h"

namespace triaccel::kernels {
namespace {

std::vector<float> cast(const std::vector<std::byte>& from, FloatType from_type, FloatType to_type,
                        std::size_t count, CastScale scale) {
  std::vector<std::byte> to(count * bytes_of(to_type));
  cpu::scaled_cast({.from = from.data(),
                    .from_type = from_type,
                    .to = to.data(),
                    .to_type = to_type,
                    .count = static_cast<std::int64_t>(count)},
                   scale);
  return loaded(to.data(), count, to_type);
}

TEST(ScaledCast, GivesTheNearestOfTheScaledValuesInEveryPairOfTypes) {
  const std::size_t count = 50021;
  const std::vector<float> values = awkward_values(count);
  for (const FloatType from_type : kFloatTypes)
    for (const FloatType to_type : kFloatTypes)
      for (const float scale : {1.0f, 0x1p10f, 0x1p-3f, 0x1p40f, 0x1p-24f})
        for (const bool divide : {false, true}) {
          const std::vector<std::byte> from = stored(values, from_type);
          const std::vector<float> read = loaded(from.data(), count, from_type);
          const std::vector<float> found =
              cast(from, from_type, to_type, count, {.scale = &scale, .divide = divide});
          for (std::size_t i = 0; i < count; ++i) {
            const double factor = divide ? 1 / double{scale} : double{scale};
            // The kernel's product is an FP32 number: exact but at the ends of its range.
            const double product = nearest(double{read[i]} * factor, FloatType::F32);
            const double rounded = nearest(product, to_type, true);
            const bool overflow = std::isinf(product) && std::isfinite(read[i]);
            const double wanted =
                overflow && to_type == FloatType::F16 ? std::copysign(65504.0, product) : rounded;
            ASSERT_TRUE(same_number(double{found[i]}, wanted))
                << read[i] << " * " << factor << " gave " << found[i];
          }
        }
}

TEST(ScaledCast, BringsEveryF16BackUnderEveryLayerScale) {
  std::vector<std::uint16_t> words;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    if ((bits & 0x7c00u) != 0x7c00u) words.push_back(static_cast<std::uint16_t>(bits));
  const auto count = static_cast<std::int64_t>(words.size());
  std::vector<float> unscaled(words.size());
  std::vector<std::uint16_t> back(words.size());
  for (float scale = kSmallestLayerScale; scale <= kLargestLayerScale; scale *= 2) {
    cpu::scaled_cast({words.data(), FloatType::F16, unscaled.data(), FloatType::F32, count},
                     {.scale = &scale, .divide = true});
    cpu::scaled_cast({unscaled.data(), FloatType::F32, back.data(), FloatType::F16, count},
                     {.scale = &scale});
    ASSERT_EQ(back, words) << "under " << scale;
  }
}

TEST(ScaledCast, RecordsTheLargestFiniteMagnitudeOfTheUnscaledSide) {
  const std::vector<float> values = {1, -6, std::nanf(""), 2, -INFINITY};
  const float scale = 4;
  float maximum = 5;
  cast(stored(values, FloatType::F32), FloatType::F32, FloatType::F16, 5,
       {.scale = &scale, .absolute_maximum = &maximum});
  EXPECT_EQ(maximum, 6.0f);
  cast(stored(values, FloatType::F16), FloatType::F16, FloatType::F32, 5,
       {.scale = &scale, .divide = true, .absolute_maximum = &maximum});
  EXPECT_EQ(maximum, 65504.0f / 4) << "an infinite product counts as the largest number";
}

TEST(ScaledCast, FindsTheMaximumWhereverItLies) {
  std::vector<float> values(100003, 0.5f);
  for (const std::size_t where : {0ul, 1ul, 16383ul, 16384ul, 70001ul, 100002ul}) {
    values[where] = -3;
    float maximum = 0;
    cast(stored(values, FloatType::Bf16), FloatType::Bf16, FloatType::F16, values.size(),
         {.absolute_maximum = &maximum});
    EXPECT_EQ(maximum, 3.0f) << where;
    values[where] = 0.5f;
  }
}

TEST(ScaledCast, TakesNoElements) {
  float maximum = 2;
  cpu::scaled_cast({}, {.absolute_maximum = &maximum});
  EXPECT_EQ(maximum, 2.0f);
}

}  // namespace
}  // namespace triaccel::kernels
