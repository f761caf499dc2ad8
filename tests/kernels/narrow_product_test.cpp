#include "triaccel/kernels/narrow_product.h"

#include "tests/kernels/narrow_product_cases.h"

namespace triaccel::kernels {
namespace {

TEST(NarrowProduct, FollowsItsDefinitionInEveryTypeAndSize) {
  at::manual_seed(1);
  for (const FloatType type : kFloatTypes)
    for (const std::int64_t rows : {0, 1, 7, 97})
      for (const std::int64_t features : {0, 1, 13, 512})
        for (const std::int64_t outputs : {1, 10, 31, 32}) {
          const NarrowProduct shape = {rows, features, outputs, type};
          const NarrowMatrices m = random_matrices(shape);
          const NarrowResults found = empty_results(m);
          cpu::narrow_product(shape, m.input.data_ptr(), m.weight.data_ptr(),
                              m.bias.data_ptr<float>(), found.output.data_ptr());
          cpu::narrow_product(shape, m.input.data_ptr(), m.weight.data_ptr(), nullptr,
                              found.unbiased.data_ptr());
          cpu::narrow_input_gradient(shape, m.output_gradient.data_ptr(), m.weight.data_ptr(),
                                     found.input_gradient.data_ptr());
          ASSERT_NO_FATAL_FAILURE(expect_products(found, m, described(shape)));
        }
}

/// 257 is 256 in BF16 and so is 256 + 1; but 257 + 1 is 258.
TEST(NarrowProduct, RoundsProductAndBiasTogether) {
  const NarrowProduct shape = {1, 2, 1, FloatType::Bf16};
  const at::Tensor input = at::tensor({256.0f, 1.0f}).to(at::kBFloat16);
  const at::Tensor weight = at::ones({2}, at::kBFloat16), output = at::empty({1}, at::kBFloat16);
  const float bias = 1;
  cpu::narrow_product(shape, input.data_ptr(), weight.data_ptr(), &bias, output.data_ptr());
  EXPECT_EQ(output.item<float>(), 258);
}

TEST(NarrowProduct, KeepsInfinitiesApartFromWhatIsNoNumber) {
  const NarrowProduct shape = {3, 16, 10, FloatType::Bf16};
  const NarrowMatrices m = with_infinite_weight(random_matrices(shape));
  const NarrowResults found = empty_results(m);
  cpu::narrow_input_gradient(shape, m.output_gradient.data_ptr(), m.weight.data_ptr(),
                             found.input_gradient.data_ptr());
  expect_infinities(found.input_gradient);
}

}  // namespace
}  // namespace triaccel::kernels
