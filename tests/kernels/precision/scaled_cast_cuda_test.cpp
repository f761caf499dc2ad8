#include "triaccel/kernels/precision/scaled_cast.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/common/rounding_oracle.h"

namespace triaccel::kernels {
namespace {

at::ScalarType cast_type(FloatType type) {
  return type == FloatType::F32 ? at::kFloat : type == FloatType::F16 ? at::kHalf : at::kBFloat16;
}

class ScaledCastOnCuda : public CudaTest {
 protected:
  struct Cast {
    at::Tensor to;
    float maximum;
  };

  static CastArrays arrays_of(const at::Tensor& from, FloatType from_type, const at::Tensor& to,
                              FloatType to_type) {
    return {from.data_ptr(), from_type, to.data_ptr(), to_type, from.numel()};
  }

  Cast on_cpu(const at::Tensor& from, FloatType from_type, FloatType to_type, float scale,
              bool divide) {
    Cast cast = {at::empty({from.numel()}, cast_type(to_type)), 0};
    cpu::scaled_cast(arrays_of(from, from_type, cast.to, to_type),
                     {.scale = &scale, .divide = divide, .absolute_maximum = &cast.maximum});
    return cast;
  }

  /// Both sides start `offset` elements behind an aligned address.
  Cast on_cuda(const at::Tensor& from, FloatType from_type, FloatType to_type, float scale,
               bool divide, std::int64_t offset) {
    const auto place = [&](at::ScalarType type) {
      return at::empty({from.numel() + offset}, at::TensorOptions(type).device(device_))
          .narrow(0, offset, from.numel());
    };
    const at::Tensor device_from = place(cast_type(from_type)), to = place(cast_type(to_type));
    device_from.copy_(from);
    const at::Tensor device_scale = on_device(scale, device_), maximum = on_device(0.0f, device_);
    cuda::scaled_cast(arrays_of(device_from, from_type, to, to_type),
                      {.scale = pointer<float>(device_scale),
                       .divide = divide,
                       .absolute_maximum = pointer<float>(maximum)},
                      stream());
    return {to.cpu(), from_device<float>(maximum)};
  }
};

TEST_F(ScaledCastOnCuda, MatchesTheCpuInEveryPairOfTypesSizeAndAlignment) {
  const std::vector<float> values = awkward_values(70001);
  const at::Tensor all = at::tensor(values);
  for (const FloatType from_type : kFloatTypes)
    for (const FloatType to_type : kFloatTypes)
      for (const std::int64_t count : {1, 7, 8, 9, 2047, 2049, 70001})
        for (const std::int64_t offset : {0, 1, 8})
          for (const bool divide : {false, true}) {
            const at::Tensor from = all.narrow(0, 0, count).to(cast_type(from_type));
            const Cast host = on_cpu(from, from_type, to_type, 0x1p10f, divide);
            const Cast device = on_cuda(from, from_type, to_type, 0x1p10f, divide, offset);
            ASSERT_EQ(device.maximum, host.maximum) << count << " at " << offset;
            ASSERT_TRUE(at::allclose(device.to.to(at::kDouble), host.to.to(at::kDouble), 0, 0,
                                     /*equal_nan=*/true))
                << count << " at " << offset;
          }
}

TEST_F(ScaledCastOnCuda, RoundsEveryFloatNearATieAsTheCpu) {
  const at::Tensor bits =
      (at::arange(0x10000, at::kLong).unsqueeze(1) * 0x10000 +
       at::tensor({0x0, 0x1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff}, at::kLong))
          .flatten();
  const at::Tensor from = bits.to(at::kInt).view(at::kFloat);
  for (const FloatType to_type : {FloatType::Bf16, FloatType::F16}) {
    const Cast host = on_cpu(from, FloatType::F32, to_type, 1, false);
    const Cast device = on_cuda(from, FloatType::F32, to_type, 1, false, 0);
    const at::Tensor number = at::isnan(from).logical_not();
    EXPECT_TRUE(at::equal(device.to.view(at::kShort).masked_select(number),
                          host.to.view(at::kShort).masked_select(number)));
    EXPECT_TRUE(at::isnan(device.to.masked_select(at::isnan(from))).all().item<bool>());
  }
}

TEST_F(ScaledCastOnCuda, CoversMoreElementsThanTheGridHoldsAtOnce) {
  const std::int64_t count = 2048 * 256 * 8 + 12345;
  const at::Tensor from = at::randn({count});
  const Cast host = on_cpu(from, FloatType::F32, FloatType::F16, 16, false);
  const Cast device = on_cuda(from, FloatType::F32, FloatType::F16, 16, false, 0);
  EXPECT_TRUE(at::equal(device.to, host.to));
  EXPECT_EQ(device.maximum, host.maximum);
}

TEST_F(ScaledCastOnCuda, TakesNoElementsAndNoScale) {
  cuda::scaled_cast({}, {}, stream());
  const at::Tensor from = at::randn({100}, device_), to = at::empty({100}, from.options());
  cuda::scaled_cast(arrays_of(from, FloatType::F32, to, FloatType::F32), {}, stream());
  EXPECT_TRUE(at::equal(from, to));
}

}  // namespace
}  // namespace triaccel::kernels
