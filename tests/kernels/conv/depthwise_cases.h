#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/common/rounding_oracle.h"
#include "triaccel/base/error.h"
#include "triaccel/kernels/conv/depthwise.h"

namespace triaccel::kernels {

inline at::ScalarType torch_type_of(FloatType type) {
  return type == FloatType::F32 ? at::kFloat : type == FloatType::F16 ? at::kHalf : at::kBFloat16;
}

inline DepthwiseAxis padded_axis(std::int64_t input, int filter, int stride, std::int64_t padding) {
  return {
      .input = input, .output = (input + 2 * padding - filter) / stride + 1, .padding = padding};
}

struct MapExtent {
  std::int64_t rows, columns;
};

/// Every filter, stride, type and count of channels asked for, with half the filter as padding.
inline std::vector<DepthwiseShape> depthwise_shapes(std::int64_t images,
                                                    const std::vector<std::int64_t>& channels,
                                                    const std::vector<MapExtent>& maps) {
  std::vector<DepthwiseShape> shapes;
  for (const std::int64_t count : channels)
    for (const MapExtent& map : maps)
      for (const int filter : {3, 5})
        for (const int stride : {1, 2})
          for (const FloatType type : kFloatTypes)
            shapes.push_back({.images = images,
                              .channels = count,
                              .rows = padded_axis(map.rows, filter, stride, filter / 2),
                              .columns = padded_axis(map.columns, filter, stride, filter / 2),
                              .filter = filter,
                              .stride = stride,
                              .type = type});
  return shapes;
}

inline std::string described(const DepthwiseShape& s) {
  return text("filter ", s.filter, " stride ", s.stride, " padding ", s.rows.padding, ",",
              s.columns.padding, " on ", s.images, "x", s.channels, "x", s.rows.input, "x",
              s.columns.input, " of type ", static_cast<int>(s.type));
}

/// Maps as they lie in memory: [image][row][column][channel].
struct DepthwiseMaps {
  at::Tensor input, weight, output_gradient;
};

inline DepthwiseMaps random_maps(const DepthwiseShape& s) {
  const at::ScalarType type = torch_type_of(s.type);
  return {at::randn({s.images, s.rows.input, s.columns.input, s.channels}).to(type),
          at::randn({s.channels, s.filter, s.filter}),
          at::randn({s.images, s.rows.output, s.columns.output, s.channels}).to(type)};
}

/// What a convolution and its two gradients give.
struct DepthwiseResults {
  at::Tensor output, input_gradient, weight_gradient;
};

inline DepthwiseResults empty_results(const DepthwiseShape& s, const DepthwiseMaps& maps) {
  const auto poisoned = [](const at::Tensor& like) { return at::full_like(like, 12345); };
  return {poisoned(maps.output_gradient), poisoned(maps.input),
          at::full({s.channels, s.filter, s.filter}, 12345.0f, maps.weight.options())};
}

inline DepthwiseResults computed_on_cpu(const DepthwiseShape& s, const DepthwiseMaps& maps) {
  DepthwiseResults found = empty_results(s, maps);
  const auto* weight = maps.weight.const_data_ptr<float>();
  cpu::depthwise_forward(s, maps.input.data_ptr(), weight, found.output.data_ptr());
  cpu::depthwise_input_gradient(s, maps.output_gradient.data_ptr(), weight,
                                found.input_gradient.data_ptr());
  cpu::depthwise_weight_gradient(s, maps.output_gradient.data_ptr(), maps.input.data_ptr(),
                                 found.weight_gradient.data_ptr<float>());
  return found;
}

/// One unit of the type, plus the error of adding terms whose magnitudes come to `magnitude`.
inline void expect_close(const at::Tensor& found, const at::Tensor& wanted,
                         const at::Tensor& magnitude, const std::string& what) {
  const double unit = found.scalar_type() == at::kFloat  ? 0x1p-23
                      : found.scalar_type() == at::kHalf ? 0x1p-10
                                                         : 0x1p-7;
  const at::Tensor exact = wanted.to(at::kDouble);
  const at::Tensor bound = exact.abs() * unit + magnitude.to(at::kDouble) * 2e-6 + 0x1p-24;
  const at::Tensor error = (found.to(at::kDouble) - exact).abs();
  ASSERT_TRUE((error <= bound).all().item<bool>())
      << what << ": error up to " << error.max().item<double>();
}

inline void expect_close(const DepthwiseResults& found, const DepthwiseResults& wanted,
                         const DepthwiseResults& magnitude, const std::string& what) {
  expect_close(found.output, wanted.output, magnitude.output, "output, " + what);
  expect_close(found.input_gradient, wanted.input_gradient, magnitude.input_gradient,
               "input gradient, " + what);
  expect_close(found.weight_gradient, wanted.weight_gradient, magnitude.weight_gradient,
               "weight gradient, " + what);
}

}  // namespace triaccel::kernels
