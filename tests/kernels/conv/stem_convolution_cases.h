#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/conv/depthwise_cases.h"
#include "triaccel/kernels/conv/stem_convolution_work.h"

namespace triaccel::kernels {

inline std::string described(const StemConvolutionShape& s) {
  return text(s.rows.window, "x", s.columns.window, " stride ", s.rows.stride, ",",
              s.columns.stride, " padding ", s.rows.padding, ",", s.columns.padding, " on ",
              s.images, "x", s.channels, "x", s.rows.input, "x", s.columns.input, " to ", s.filters,
              " filters, type ", static_cast<int>(s.image_type), " to ", static_cast<int>(s.type),
              s.channels_last ? ", channels last" : ", channels first");
}

/// Both memory orders, types to types, one channel to 4, filters of one group, several and parts of
/// one, overlapping windows and ones far apart or that leave a border, wide, narrow and
/// single-pixel images, one tap to 64.
inline std::vector<StemConvolutionShape> stem_convolution_shapes(std::int64_t images) {
  struct Case {
    std::int64_t channels, filters;
    WindowAxis rows, columns;
  };
  const Case cases[] = {{3, 64, fitted_windows(32, 3, 1, 1), fitted_windows(32, 3, 1, 1)},
                        {3, 64, fitted_windows(32, 7, 2, 3), fitted_windows(32, 7, 2, 3)},
                        {3, 32, fitted_windows(31, 3, 2, 1), fitted_windows(47, 3, 2, 1)},
                        {3, 32, fitted_windows(36, 3, 2, 0), fitted_windows(40, 3, 2, 0)},
                        {1, 8, fitted_windows(28, 5, 1, 2), fitted_windows(28, 5, 1, 0)},
                        {4, 24, fitted_windows(13, 2, 5, 1), fitted_windows(17, 3, 4, 2)},
                        {2, 96, fitted_windows(1, 1, 1, 0), fitted_windows(1, 1, 1, 0)},
                        {3, 40, fitted_windows(32, 8, 8, 0), fitted_windows(27, 8, 8, 3)},
                        {3, 128, fitted_windows(5, 3, 1, 2), fitted_windows(150, 3, 1, 2)},
                        {2, 72, fitted_windows(3, 1, 1, 0), fitted_windows(90, 64, 1, 10)},
                        {4, 16, fitted_windows(90, 64, 1, 10), fitted_windows(2, 1, 1, 0)},
                        {3, 8, fitted_windows(7, 7, 3, 3), fitted_windows(11, 6, 2, 5)}};
  struct Types {
    FloatType image, type;
  };
  constexpr Types types[] = {{FloatType::F32, FloatType::Bf16},  {FloatType::F32, FloatType::F16},
                             {FloatType::Bf16, FloatType::Bf16}, {FloatType::F16, FloatType::Bf16},
                             {FloatType::Bf16, FloatType::F16},  {FloatType::F16, FloatType::F16}};
  std::vector<StemConvolutionShape> shapes;
  for (const Case& c : cases)
    for (const bool channels_last : {true, false})
      for (const Types& t : types)
        shapes.push_back({.images = images,
                          .channels = c.channels,
                          .filters = c.filters,
                          .rows = c.rows,
                          .columns = c.columns,
                          .channels_last = channels_last,
                          .image_type = t.image,
                          .type = t.type});
  return shapes;
}

/// Images [N, C, H, W] in the memory order of the shape; weights [filter][tap row][tap
/// column][channel] and maps [image][row][column][filter] as they lie in memory.
struct ImageTensors {
  at::Tensor images, weight, output_gradient;
};

/// Makes NaN of all pixels that no window sees: they must not reach a result.
inline void spoil_unseen(const StemConvolutionShape& s, at::Tensor& images) {
  const auto unseen = [](const WindowAxis& axis) {
    at::Tensor mask = at::ones({axis.input}, at::kBool);
    for (std::int64_t o = 0; o < axis.output; ++o)
      for (std::int64_t tap = 0; tap < axis.window; ++tap) {
        const std::int64_t position = o * axis.stride - axis.padding + tap;
        if (position >= 0 && position < axis.input) mask[position] = false;
      }
    return mask;
  };
  images.masked_fill_(unseen(s.rows).view({-1, 1}) | unseen(s.columns), NAN);
}

inline ImageTensors random_tensors(const StemConvolutionShape& s) {
  at::Tensor images = at::randn({s.images, s.channels, s.rows.input, s.columns.input})
                          .to(torch_type_of(s.image_type))
                          .contiguous(s.channels_last ? at::MemoryFormat::ChannelsLast
                                                      : at::MemoryFormat::Contiguous);
  spoil_unseen(s, images);
  return {
      images, at::randn({s.filters, s.rows.window, s.columns.window, s.channels}),
      at::randn({s.images, s.rows.output, s.columns.output, s.filters}).to(torch_type_of(s.type))};
}

struct ImageResults {
  at::Tensor output, weight_gradient;
};

inline ImageResults poisoned_results(const ImageTensors& tensors) {
  return {at::full_like(tensors.output_gradient, 12345), at::full_like(tensors.weight, 12345)};
}

inline ImageResults computed_on_cpu(const StemConvolutionShape& s, const ImageTensors& tensors) {
  const ImageResults found = poisoned_results(tensors);
  cpu::stem_convolution(s, tensors.images.data_ptr(), tensors.weight.const_data_ptr<float>(),
                        found.output.data_ptr());
  cpu::stem_weight_gradient(s, tensors.output_gradient.data_ptr(), tensors.images.data_ptr(),
                            found.weight_gradient.data_ptr<float>());
  return found;
}

/// The magnitudes of all terms, added up.
inline ImageResults magnitudes(const StemConvolutionShape& s, const ImageTensors& tensors) {
  return computed_on_cpu(
      s, {tensors.images.abs(), tensors.weight.abs(), tensors.output_gradient.abs()});
}

inline void expect_close(const ImageResults& found, const ImageResults& wanted,
                         const ImageResults& magnitude, const std::string& what) {
  expect_close(found.output, wanted.output, magnitude.output, "output, " + what);
  expect_close(found.weight_gradient, wanted.weight_gradient, magnitude.weight_gradient,
               "weight gradient, " + what);
}

/// By the definition, in FP64, of images and weights rounded to the shape's type.
inline ImageResults by_definition(const StemConvolutionShape& s, const ImageTensors& tensors) {
  const auto exact = [&](const at::Tensor& tensor) {
    return tensor.to(at::kFloat).to(torch_type_of(s.type)).to(at::kDouble).contiguous();
  };
  const at::Tensor images = exact(tensors.images), weight = exact(tensors.weight),
                   gradient = exact(tensors.output_gradient);
  ImageResults r = {at::zeros_like(gradient), at::zeros_like(weight)};
  const auto x = images.accessor<double, 4>(), w = weight.accessor<double, 4>(),
             dy = gradient.accessor<double, 4>();
  auto y = r.output.accessor<double, 4>(), dw = r.weight_gradient.accessor<double, 4>();
  for (std::int64_t n = 0; n < s.images; ++n)
    for (std::int64_t oy = 0; oy < s.rows.output; ++oy)
      for (std::int64_t ox = 0; ox < s.columns.output; ++ox)
        for (std::int64_t kr = 0; kr < s.rows.window; ++kr)
          for (std::int64_t kc = 0; kc < s.columns.window; ++kc) {
            const std::int64_t iy = oy * s.rows.stride - s.rows.padding + kr;
            const std::int64_t ix = ox * s.columns.stride - s.columns.padding + kc;
            if (iy < 0 || iy >= s.rows.input || ix < 0 || ix >= s.columns.input) continue;
            for (std::int64_t c = 0; c < s.channels; ++c)
              for (std::int64_t f = 0; f < s.filters; ++f) {
                y[n][oy][ox][f] += w[f][kr][kc][c] * x[n][c][iy][ix];
                dw[f][kr][kc][c] += dy[n][oy][ox][f] * x[n][c][iy][ix];
              }
          }
  return r;
}

}  // namespace triaccel::kernels
