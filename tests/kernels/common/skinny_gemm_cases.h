#pragma once

#include <ATen/ATen.h>

#include <string>

#include "tests/kernels/conv/depthwise_cases.h"
#include "triaccel/kernels/common/skinny_gemm.h"

namespace triaccel::kernels {

inline std::string described(const SkinnyGemm& p) {
  return text(p.rows, " rows of ", p.features, " features to ", p.outputs, " outputs of type ",
              static_cast<int>(p.type));
}

struct SkinnyMatrices {
  at::Tensor input, weight, output_gradient;
  at::Tensor bias;  // F32
};

inline SkinnyMatrices random_matrices(const SkinnyGemm& p, at::Device device = at::kCPU) {
  const auto random = [&](std::int64_t rows, std::int64_t columns) {
    return at::randn({rows, columns}, device).to(torch_type_of(p.type));
  };
  return {random(p.rows, p.features), random(p.outputs, p.features), random(p.rows, p.outputs),
          at::randn({p.outputs}, device)};
}

/// One weight of the last output is infinite, of a feature that is found again in one gradient.
inline SkinnyMatrices with_infinite_weight(SkinnyMatrices m) {
  m.weight.select(0, m.weight.size(0) - 1).select(0, 3).fill_(INFINITY);
  m.output_gradient.abs_();
  return m;
}

inline void expect_infinities(const at::Tensor& input_gradient) {
  EXPECT_TRUE(input_gradient.select(1, 3).isposinf().all().item<bool>());
  EXPECT_EQ(input_gradient.isfinite().sum().item<std::int64_t>(),
            input_gradient.numel() - input_gradient.size(0));
}

struct SkinnyResults {
  at::Tensor output, unbiased, input_gradient;
};

inline SkinnyResults empty_results(const SkinnyMatrices& m) {
  const auto poisoned = [](const at::Tensor& like) { return at::full_like(like, 12345); };
  return {poisoned(m.output_gradient), poisoned(m.output_gradient), poisoned(m.input)};
}

/// Against FP64: one rounding, and the error of adding up in FP32.
inline void expect_products(const SkinnyResults& found, const SkinnyMatrices& m,
                            const std::string& what) {
  const auto exact = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  const at::Tensor x = exact(m.input), w = exact(m.weight), dy = exact(m.output_gradient);
  const at::Tensor product = at::mm(x, w.t()), sizes = at::mm(x.abs(), w.t().abs());
  const at::Tensor bias = exact(m.bias);
  expect_close(found.output, product + bias, sizes + bias.abs(), "output, " + what);
  expect_close(found.unbiased, product, sizes, "without bias, " + what);
  expect_close(found.input_gradient, at::mm(dy, w), at::mm(dy.abs(), w.abs()),
               "input gradient, " + what);
}

}  // namespace triaccel::kernels
