#include "triaccel/kernels/common/skinny_gemm.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/common/skinny_gemm_cases.h"

namespace triaccel::kernels {
namespace {

class SkinnyGemmOnCuda : public CudaTest {
 protected:
  SkinnyResults results_of(const SkinnyGemm& shape, const SkinnyMatrices& m) {
    const SkinnyResults found = empty_results(m);
    cuda::skinny_gemm(shape, m.input.data_ptr(), m.weight.data_ptr(), m.bias.data_ptr<float>(),
                      found.output.data_ptr(), stream());
    cuda::skinny_gemm(shape, m.input.data_ptr(), m.weight.data_ptr(), nullptr,
                      found.unbiased.data_ptr(), stream());
    cuda::skinny_input_gradient(shape, m.output_gradient.data_ptr(), m.weight.data_ptr(),
                                found.input_gradient.data_ptr(), stream());
    return found;
  }

  void expect_definition(const SkinnyGemm& shape, const SkinnyMatrices& m) {
    const SkinnyResults found = results_of(shape, m), again = results_of(shape, m);
    EXPECT_TRUE(at::equal(found.output, again.output)) << described(shape);
    EXPECT_TRUE(at::equal(found.unbiased, again.unbiased)) << described(shape);
    EXPECT_TRUE(at::equal(found.input_gradient, again.input_gradient)) << described(shape);
    expect_products(found, m, described(shape));
  }
};

TEST_F(SkinnyGemmOnCuda, FollowsItsDefinitionInEveryTypeAndSize) {
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t rows : {0, 1, 7, 96, 131, 1024, 4099})
      for (const std::int64_t features : {0, 1, 13, 40, 512, 1280, 2056})
        for (const std::int64_t outputs : {1, 8, 10, 17, 31, 32}) {
          const SkinnyGemm shape = {rows, features, outputs, type};
          ASSERT_NO_FATAL_FAILURE(expect_definition(shape, random_matrices(shape, device_)));
        }
}

TEST_F(SkinnyGemmOnCuda, TakesMatricesThatLieAnywhere) {
  const SkinnyGemm shape = {96, 512, 10, FloatType::Bf16};
  const auto shifted = [](const at::Tensor& matrix) {
    return at::cat({at::zeros({1}, matrix.options()), matrix.flatten()})
        .narrow(0, 1, matrix.numel())
        .view(matrix.sizes());
  };
  const SkinnyMatrices m = random_matrices(shape, device_);
  expect_definition(shape, {shifted(m.input), m.weight, shifted(m.output_gradient), m.bias});
  expect_definition(shape, {m.input, shifted(m.weight), m.output_gradient, shifted(m.bias)});
}

TEST_F(SkinnyGemmOnCuda, KeepsInfinitiesApartFromWhatIsNoNumber) {
  for (const std::int64_t rows : {3, 1024})
    for (const std::int64_t outputs : {1, 10, 17, 32}) {
      const SkinnyGemm shape = {rows, 16, outputs, FloatType::Bf16};
      const SkinnyMatrices m = with_infinite_weight(random_matrices(shape, device_));
      expect_infinities(results_of(shape, m).input_gradient);
    }
}

/// However many of them a block takes.
TEST_F(SkinnyGemmOnCuda, GivesARowTheSameBitsInABatchOfAnySize) {
  const SkinnyGemm shape = {1024, 512, 10, FloatType::Bf16};
  const SkinnyMatrices m = random_matrices(shape, device_);
  const SkinnyResults all = results_of(shape, m);
  for (const std::int64_t rows : {1, 5, 96}) {
    SkinnyGemm fewer = shape;
    fewer.rows = rows;
    const SkinnyResults found = results_of(fewer, {m.input.narrow(0, 0, rows), m.weight,
                                                   m.output_gradient.narrow(0, 0, rows), m.bias});
    EXPECT_TRUE(at::equal(found.output, all.output.narrow(0, 0, rows))) << rows;
    EXPECT_TRUE(at::equal(found.input_gradient, all.input_gradient.narrow(0, 0, rows))) << rows;
  }
}

}  // namespace
}  // namespace triaccel::kernels
