#include "triaccel/ops/tensors/skinny_gemm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(SkinnyGemm, IsTheProductAndItsInputsGradient) {
  at::manual_seed(1);
  const at::Tensor input = at::randn({7, 40}), weight = at::randn({10, 40}), bias = at::randn({10});
  EXPECT_TRUE(at::allclose(skinny_gemm(input, weight), at::mm(input, weight.t()), 1e-5, 1e-5));
  const at::Tensor output = skinny_gemm(input, weight, bias);
  EXPECT_TRUE(at::allclose(output, at::addmm(bias, input, weight.t()), 1e-5, 1e-5));
  EXPECT_TRUE(
      at::allclose(skinny_input_gradient(output, weight), at::mm(output, weight), 1e-5, 1e-4));
}

TEST(SkinnyGemm, SaysWhatItDoesNotTake) {
  const at::Tensor input = at::randn({7, 40}), weight = at::randn({10, 40});
  EXPECT_TRUE(takes_skinny_gemm(input, weight));
  EXPECT_TRUE(takes_skinny_gemm(input, at::randn({32, 40})));
  EXPECT_FALSE(takes_skinny_gemm(input, at::randn({33, 40})));
  EXPECT_FALSE(takes_skinny_gemm(input, at::randn({0, 40})));
  EXPECT_FALSE(takes_skinny_gemm(input, weight.to(at::kHalf)));
  EXPECT_FALSE(takes_skinny_gemm(input.to(at::kDouble), weight.to(at::kDouble)));
  EXPECT_FALSE(takes_skinny_gemm(at::randn({40, 7}).t(), weight));
  EXPECT_FALSE(takes_skinny_gemm(input, at::randn({40, 10}).t()));
  EXPECT_FALSE(takes_skinny_gemm(at::randn({1, 7, 40}), weight));
  EXPECT_FALSE(takes_skinny_gemm({}, weight));
  EXPECT_THROW(skinny_gemm(input, at::randn({33, 40})), UsageError);
  EXPECT_THROW(skinny_gemm(at::randn({7, 39}), weight), UsageError);
  EXPECT_THROW(skinny_gemm(input, weight, at::randn({9})), UsageError);
  EXPECT_THROW(skinny_gemm(input, weight, at::randn({10}).to(at::kHalf)), UsageError);
  EXPECT_THROW(skinny_input_gradient(at::randn({7, 9}), weight), UsageError);
}

}  // namespace
}  // namespace triaccel
