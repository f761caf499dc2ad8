#include "triaccel/kernels/common/bias.h"

#include "tests/kernels/common/bias_cases.h"

namespace triaccel::kernels {
namespace {

TEST(Bias, FollowsItsDefinitionInEveryTypeAndSize) {
  at::manual_seed(1);
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t rows : {0, 1, 7, 257, 4099})
      for (const std::int64_t channels : {1, 3, 8, 40}) {
        const BiasedMatrix shape = {rows, channels, type};
        at::Tensor matrix = random_matrix(shape), bias = at::randn({channels});
        const at::Tensor wanted = biased(matrix, bias), sums = at::full({channels}, 12345.0f);
        cpu::bias_gradient(shape, matrix.data_ptr(), sums.data_ptr<float>());
        expect_sums(sums, matrix, described(shape));
        cpu::add_bias(shape, bias.data_ptr<float>(), matrix.data_ptr());
        EXPECT_TRUE(at::equal(matrix, wanted)) << described(shape);
      }
}

TEST(Bias, CutsOnlyLongMatricesIntoRunsOfRows) {
  EXPECT_EQ(bias_gradient_scratch({kRowsOfOneSum, 1152, FloatType::Bf16}), 0);
  EXPECT_EQ(bias_row_chunks({96 * 112 * 112, 32, FloatType::Bf16}), 528);
  EXPECT_EQ(bias_gradient_scratch({2049, 1152, FloatType::Bf16}), 32 * 1152);
}

}  // namespace
}  // namespace triaccel::kernels
