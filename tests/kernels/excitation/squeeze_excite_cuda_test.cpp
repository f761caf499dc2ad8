#include "triaccel/kernels/excitation/squeeze_excite.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/excitation/squeeze_excite_cases.h"

namespace triaccel::kernels {
namespace {

class SqueezeExciteOnCuda : public CudaTest {
 protected:
  ExciteResults on_cuda(const ExciteShape& shape, const ExciteInputs& in, FloatType excite_type) {
    return excite_results(
        shape, in, excite_type,
        [&](const auto& layers, const auto& params) {
          cuda::excite_forward(shape, layers, params, stream());
        },
        [&](const auto& layers, const auto& params) {
          cuda::excite_backward(shape, layers, params, stream());
        },
        [&](const auto& params) { cuda::excite_parameters(shape, params, stream()); });
  }

  void expect_definition(const ExciteShape& shape, FloatType excite_type = FloatType::Bf16) {
    ASSERT_TRUE(cuda::excite_fits(shape)) << described(shape);
    const ExciteInputs in = random_excite_inputs(shape), device = in.to(device_);
    const ExciteResults found = on_cuda(shape, device, excite_type);
    const auto once = found.all(), again = on_cuda(shape, device, excite_type).all();
    for (std::size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(at::equal(once[i], again[i])) << kExciteNames[i] << " of " << described(shape);
    ASSERT_NO_FATAL_FAILURE(expect_excite_definition(shape, in, found));
  }
};

TEST_F(SqueezeExciteOnCuda, FollowsItsDefinitionInEveryTypeAndSize) {
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t samples : {0, 1, 3, 96})
      for (const std::int64_t channels : {1, 13, 145, 400})
        for (const std::int64_t hidden : {1, 3, 20})
          ASSERT_NO_FATAL_FAILURE(expect_definition({samples, channels, hidden, type}, type));
}

TEST_F(SqueezeExciteOnCuda, FollowsItsDefinitionInEveryBlockOfEfficientNet) {
  for (const auto& [channels, hidden] :
       {std::pair{32, 8}, {96, 4}, {144, 6}, {240, 10}, {480, 20}, {672, 28}, {1152, 48}})
    for (const std::int64_t samples : {1, 96, 101, 1024})
      ASSERT_NO_FATAL_FAILURE(expect_definition({samples, channels, hidden, FloatType::Bf16}));
}

TEST_F(SqueezeExciteOnCuda, TakesWhatSharedMemoryHoldsAndRefusesTheRest) {
  ASSERT_NO_FATAL_FAILURE(expect_definition({9, 1151, 127, FloatType::F32}));
  EXPECT_FALSE(cuda::excite_fits({9, 1152, 129, FloatType::F32}));
  EXPECT_FALSE(cuda::excite_fits({9, 4096, 128, FloatType::F32}));
}

}  // namespace
}  // namespace triaccel::kernels
