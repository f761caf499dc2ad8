#include "triaccel/layers/execution/linear_product.h"

#include "tests/layers/execution/linear_product_cases.h"

namespace triaccel {
namespace {

TEST(LinearProduct, IsTheProductWithItsBiasAndTheirGradients) {
  at::manual_seed(1);
  for (const Precision precision : {Precision::Fp32, Precision::Bf16, Precision::Fp16})
    for (const Arithmetic arithmetic : {Arithmetic::Native, Arithmetic::Fp32})
      for (const std::vector<std::int64_t>& sizes :
           {std::vector<std::int64_t>{40}, {6, 40}, {2, 3, 40}})
        expect_linear_product(sizes, /*outputs=*/10, precision, arithmetic,
                              precision == Precision::Fp32 ? at::kFloat : at::kBFloat16, at::kCPU);
}

TEST(LinearProduct, OfNoRowsHasGradientsOfZero) {
  for (const Precision precision : {Precision::Fp32, Precision::Bf16})
    for (const Arithmetic arithmetic : {Arithmetic::Native, Arithmetic::Fp32})
      expect_linear_product({0, 40}, /*outputs=*/10, precision, arithmetic,
                            precision == Precision::Fp32 ? at::kFloat : at::kBFloat16, at::kCPU);
}

}  // namespace
}  // namespace triaccel
