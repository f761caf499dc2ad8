#include "triaccel/layers/execution/linear_product.h"

#include "tests/layers/execution/linear_product_cases.h"

namespace triaccel {
namespace {

/// Up to 32 outputs in 16 bits by our own kernels, else by libtorch.
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

/// The classifier's product, as a layer asks for it: the product alone would be 256.
TEST(LinearProductOnCuda, RoundsAFewOutputsWithTheirBias) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  const at::Device device(at::kCUDA, 0);
  const at::Tensor input = at::tensor({256.0f, 1.0f}).view({1, 2}).to(device);
  const at::Tensor ones = at::ones({1, 2}, device), bias = at::ones({1}, device);
  const at::Tensor output =
      linear_forward(input, ones, bias, Precision::Bf16, Arithmetic::Native, at::kBFloat16);
  EXPECT_EQ(output.item<float>(), 258);
}

}  // namespace
}  // namespace triaccel
