#include "triaccel/layers/execution/linear_product.h"

#include "tests/layers/execution/linear_product_cases.h"

namespace triaccel {
namespace {

TEST(LinearProductOnCuda, IsTheProductWithItsBiasAndTheirGradientsHoweverMany) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  at::manual_seed(1);
  for (const Precision precision : {Precision::Bf16, Precision::Fp16})
    for (const Arithmetic arithmetic : {Arithmetic::Native, Arithmetic::Fp32})
      for (const at::ScalarType carrier : {at::kBFloat16, at::kHalf})
        for (const std::int64_t outputs : {1, 10, 32, 33})
          for (const std::vector<std::int64_t>& sizes :
               {std::vector<std::int64_t>{512}, {96, 512}, {1024, 512}, {2, 3, 41}})
            expect_linear_product(sizes, outputs, precision, arithmetic, carrier,
                                  at::Device(at::kCUDA, 0));
}

}  // namespace
}  // namespace triaccel
