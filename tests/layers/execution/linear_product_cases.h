#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "triaccel/layers/execution/linear_product.h"
#include "triaccel/layers/execution/rounding.h"

namespace triaccel {

/// Against FP64, of operands rounded to `precision`: an error of two units of the coarser of it and
/// the carrier, since what is rounded to one may be rounded to the other, before and after the
/// bias.
inline void expect_linear_product(const std::vector<std::int64_t>& sizes, std::int64_t outputs,
                                  Precision precision, Arithmetic arithmetic,
                                  at::ScalarType carrier, at::Device device) {
  SCOPED_TRACE(testing::Message() << at::IntArrayRef(sizes) << " to " << outputs << " in "
                                  << name_of(precision) << ", carried in " << carrier);
  const at::ScalarType type = scalar_type_of(precision);
  const auto unit_of = [](at::ScalarType t) {
    return t == at::kBFloat16 ? 0x1p-8 : t == at::kHalf ? 0x1p-11 : 1e-6;
  };
  const double unit = std::max(unit_of(type), unit_of(carrier));
  const auto exact = [&](const at::Tensor& t) { return t.to(type).to(at::kDouble).cpu(); };
  const auto expect_near = [&](const at::Tensor& found, const at::Tensor& wanted) {
    EXPECT_EQ(found.sizes(), wanted.sizes());
    if (wanted.numel() == 0) return;
    const at::Tensor error = found.to(at::kDouble).cpu() - wanted;
    EXPECT_LE(error.abs().max().item<double>(), 2 * unit * wanted.abs().max().item<double>());
  };
  const at::Tensor input = at::randn(sizes).to(device), bias = at::randn({outputs}).to(device);
  const at::Tensor weight = at::randn({outputs, sizes.back()}).to(device);
  const at::Tensor x = exact(input), w = exact(weight), offsets = bias.to(at::kDouble).cpu();
  const at::Tensor biased = linear_forward(input, weight, bias, precision, arithmetic, carrier);
  EXPECT_EQ(biased.scalar_type(), carrier);
  expect_near(biased, at::linear(x, w, offsets));
  expect_near(linear_forward(input, weight, {}, precision, arithmetic, carrier), at::linear(x, w));

  const at::Tensor gradient = at::randn(biased.sizes()).to(device), dy = exact(gradient);
  const LayerGradients found = linear_backward(gradient, input, weight, precision, arithmetic,
                                               {.input = carrier, .weight = type});
  EXPECT_EQ(found.input.scalar_type(), carrier);
  EXPECT_EQ(found.weight.scalar_type(), type);
  expect_near(found.input, at::matmul(dy, w));
  expect_near(found.weight, at::mm(dy.reshape({-1, outputs}).t(), x.reshape({-1, sizes.back()})));
}

}  // namespace triaccel
