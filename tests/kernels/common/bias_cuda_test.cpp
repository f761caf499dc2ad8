#include "triaccel/kernels/common/bias.h"

#include "tests/kernels/common/bias_cases.h"
#include "tests/kernels/common/cuda_fixture.h"

namespace triaccel::kernels {
namespace {

class BiasOnCuda : public CudaTest {
 protected:
  at::Tensor sums_of(const BiasedMatrix& shape, const at::Tensor& matrix) {
    const at::TensorOptions floats = matrix.options().dtype(at::kFloat);
    const at::Tensor sums = at::full({shape.channels}, 12345.0f, floats);
    const at::Tensor scratch = at::full({bias_gradient_scratch(shape)}, 12345.0f, floats);
    cuda::bias_gradient(shape, matrix.data_ptr(), scratch.data_ptr<float>(), sums.data_ptr<float>(),
                        stream());
    return sums;
  }

  void expect_definition(const BiasedMatrix& shape, const at::Tensor& matrix) {
    const at::Tensor bias = at::randn({shape.channels}, device_), wanted = biased(matrix, bias);
    const at::Tensor sums = sums_of(shape, matrix);
    EXPECT_TRUE(at::equal(sums, sums_of(shape, matrix))) << described(shape);
    expect_sums(sums, matrix, described(shape));
    cuda::add_bias(shape, bias.data_ptr<float>(), matrix.data_ptr(), stream());
    EXPECT_TRUE(at::equal(matrix, wanted)) << described(shape);
  }
};

TEST_F(BiasOnCuda, FollowsItsDefinitionInEveryTypeAndSize) {
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t rows : {0, 1, 7, 96, 2048, 2049, 10007})
      for (const std::int64_t channels : {1, 3, 8, 32, 40, 257, 1152, 2304}) {
        const BiasedMatrix shape = {rows, channels, type};
        ASSERT_NO_FATAL_FAILURE(expect_definition(shape, random_matrix(shape, device_)));
      }
}

TEST_F(BiasOnCuda, FollowsItsDefinitionOnALargeMap) {
  const BiasedMatrix shape = {96 * 112 * 112, 32, FloatType::Bf16};
  expect_definition(shape, random_matrix(shape, device_));
}

TEST_F(BiasOnCuda, TakesMatricesThatLieAnywhere) {
  const BiasedMatrix shape = {3000, 16, FloatType::F16};
  const at::Tensor whole = at::randn({3000 * 16 + 1}, device_).to(at::kHalf);
  expect_definition(shape, whole.narrow(0, 1, 3000 * 16).view({3000, 16}));
}

}  // namespace
}  // namespace triaccel::kernels
