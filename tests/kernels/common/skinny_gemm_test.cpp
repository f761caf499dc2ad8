#include "triaccel/kernels/common/skinny_gemm.h"

#include "tests/kernels/common/skinny_gemm_cases.h"

namespace triaccel::kernels {
namespace {

TEST(SkinnyGemm, FollowsItsDefinitionInEveryTypeAndSize) {
  at::manual_seed(1);
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t rows : {0, 1, 7, 97})
      for (const std::int64_t features : {0, 1, 13, 512})
        for (const std::int64_t outputs : {1, 10, 31, 32}) {
          const SkinnyGemm shape = {rows, features, outputs, type};
          const SkinnyMatrices m = random_matrices(shape);
          const SkinnyResults found = empty_results(m);
          cpu::skinny_gemm(shape, m.input.data_ptr(), m.weight.data_ptr(), m.bias.data_ptr<float>(),
                           found.output.data_ptr());
          cpu::skinny_gemm(shape, m.input.data_ptr(), m.weight.data_ptr(), nullptr,
                           found.unbiased.data_ptr());
          cpu::skinny_input_gradient(shape, m.output_gradient.data_ptr(), m.weight.data_ptr(),
                                     found.input_gradient.data_ptr());
          ASSERT_NO_FATAL_FAILURE(expect_products(found, m, described(shape)));
        }
}

/// 257 is 256 in BF16 and so is 256 + 1; but 257 + 1 is 258.
TEST(SkinnyGemm, RoundsProductAndBiasTogether) {
  const SkinnyGemm shape = {1, 2, 1, FloatType::Bf16};
  const at::Tensor input = at::tensor({256.0f, 1.0f}).to(at::kBFloat16);
  const at::Tensor weight = at::ones({2}, at::kBFloat16), output = at::empty({1}, at::kBFloat16);
  const float bias = 1;
  cpu::skinny_gemm(shape, input.data_ptr(), weight.data_ptr(), &bias, output.data_ptr());
  EXPECT_EQ(output.item<float>(), 258);
}

TEST(SkinnyGemm, KeepsInfinitiesApartFromWhatIsNoNumber) {
  const SkinnyGemm shape = {3, 16, 10, FloatType::Bf16};
  const SkinnyMatrices m = with_infinite_weight(random_matrices(shape));
  const SkinnyResults found = empty_results(m);
  cpu::skinny_input_gradient(shape, m.output_gradient.data_ptr(), m.weight.data_ptr(),
                             found.input_gradient.data_ptr());
  expect_infinities(found.input_gradient);
}

}  // namespace
}  // namespace triaccel::kernels
