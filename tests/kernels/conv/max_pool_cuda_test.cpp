#include "triaccel/kernels/conv/max_pool.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/conv/max_pool_cases.h"

namespace triaccel::kernels {
namespace {

class MaxPoolOnCuda : public CudaTest {
 protected:
  PoolResults on_cuda(const PoolShape& s, const at::Tensor& map, const at::Tensor& dy) {
    return pool_results(
        map, dy,
        [&](const void* from, void* to, std::uint8_t* taps) {
          cuda::max_pool(s, from, to, taps, stream());
        },
        [&](const void* of, const std::uint8_t* taps, void* dx) {
          cuda::max_pool_gradient(s, of, nullptr, taps, dx, stream());
        });
  }

  void expect_oracle(const PoolShape& s) {
    const at::Tensor map = awkward_map(s), dy = output_gradient_of(s);
    const PoolResults found = on_cuda(s, map.to(device_), dy.to(device_));
    const PoolResults again = on_cuda(s, map.to(device_), dy.to(device_));
    const PoolResults wanted = pooled_on_cpu(s, map, dy);
    EXPECT_TRUE(same_numbers(found.values.cpu(), wanted.values)) << described(s);
    EXPECT_TRUE(at::equal(found.taps.cpu(), wanted.taps)) << described(s);
    EXPECT_TRUE(same_numbers(found.map_gradient.cpu(), wanted.map_gradient)) << described(s);
    EXPECT_TRUE(same_numbers(found.values, again.values)) << described(s);
    EXPECT_TRUE(at::equal(found.map_gradient, again.map_gradient)) << described(s);
  }
};

TEST_F(MaxPoolOnCuda, GivesTheNumbersOfTheOracle) {
  for (const PoolShape& s : pool_shapes({1, 4, 5, 8, 64, 1032})) expect_oracle(s);
}

TEST_F(MaxPoolOnCuda, GivesTheNumbersOfTheOracleInABatch) {
  PoolShape s = pool_shapes({64}).front();
  s.images = 96;
  s.type = FloatType::Bf16;
  expect_oracle(s);
}

TEST_F(MaxPoolOnCuda, GivesTheNumbersOfTheOracleForOneImage) {
  for (PoolShape s : pool_shapes({64})) {
    s.images = 1;
    expect_oracle(s);
  }
}

TEST_F(MaxPoolOnCuda, TakesMapsThatLieAnywhere) {
  const PoolShape s = {.images = 2,
                       .channels = 16,
                       .rows = fitted_windows(9, 3, 2, 1),
                       .columns = fitted_windows(9, 3, 2, 1),
                       .type = FloatType::Bf16};
  const at::Tensor map = awkward_map(s), dy = output_gradient_of(s);
  const at::Tensor odd = at::empty({map.numel() + 1}, map.options().device(device_))
                             .narrow(0, 1, map.numel())
                             .view(map.sizes());
  odd.copy_(map);
  const PoolResults found = on_cuda(s, odd, dy.to(device_)), wanted = pooled_on_cpu(s, map, dy);
  EXPECT_TRUE(same_numbers(found.values.cpu(), wanted.values));
  EXPECT_TRUE(at::equal(found.taps.cpu(), wanted.taps));
}

TEST_F(MaxPoolOnCuda, AddsASecondGradientFirst) {
  for (const PoolShape& s : pool_shapes({5, 64})) {
    const at::Tensor map = awkward_map(s).to(device_);
    const at::Tensor dy = output_gradient_of(s).to(device_);
    const at::Tensor second = output_gradient_of(s).to(device_);
    const PoolResults wanted = on_cuda(s, map, dy + second);
    const at::Tensor found = at::full_like(map, 12345);
    cuda::max_pool_gradient(s, dy.data_ptr(), second.data_ptr(),
                            wanted.taps.data_ptr<std::uint8_t>(), found.data_ptr(), stream());
    EXPECT_TRUE(same_numbers(found, wanted.map_gradient)) << described(s);
  }
}

TEST_F(MaxPoolOnCuda, TakesNoImages) {
  const PoolShape s = {.images = 0, .channels = 8};
  cuda::max_pool(s, nullptr, nullptr, nullptr, stream());
  cuda::max_pool_gradient(s, nullptr, nullptr, nullptr, nullptr, stream());
}

}  // namespace
}  // namespace triaccel::kernels
