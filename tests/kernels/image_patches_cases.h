#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "tests/kernels/depthwise_cases.h"
#include "triaccel/kernels/image_patches.h"

namespace triaccel::kernels {

inline std::string described(const PatchShape& s) {
  return text(s.rows.window, "x", s.columns.window, " stride ", s.rows.stride, ",",
              s.columns.stride, " padding ", s.rows.padding, ",", s.columns.padding, " on ",
              s.images, "x", s.channels, "x", s.rows.input, "x", s.columns.input, ", type ",
              static_cast<int>(s.image_type), " to ", static_cast<int>(s.matrix_type),
              s.channels_last ? ", channels last" : ", channels first");
}

/// Both memory orders, types to types, one channel to 8, overlapping windows and ones far apart,
/// wide and narrow images.
inline std::vector<PatchShape> patch_shapes() {
  struct Axes {
    std::int64_t channels;
    WindowAxis rows, columns;
  };
  const Axes axes[] = {{3, fitted_windows(32, 3, 1, 1), fitted_windows(32, 3, 1, 1)},
                       {3, fitted_windows(32, 7, 2, 3), fitted_windows(32, 7, 2, 3)},
                       {1, fitted_windows(28, 5, 1, 2), fitted_windows(28, 5, 1, 0)},
                       {4, fitted_windows(13, 2, 5, 1), fitted_windows(17, 3, 4, 2)},
                       {2, fitted_windows(1, 1, 1, 0), fitted_windows(1, 1, 1, 0)},
                       {8, fitted_windows(35, 16, 16, 0), fitted_windows(50, 16, 16, 3)},
                       {3, fitted_windows(5, 3, 1, 2), fitted_windows(1500, 3, 1, 2)}};
  std::vector<PatchShape> shapes;
  struct Types {
    FloatType image, matrix;
  };
  constexpr Types types[] = {{FloatType::F32, FloatType::F32},  {FloatType::F32, FloatType::Bf16},
                             {FloatType::F32, FloatType::F16},  {FloatType::Bf16, FloatType::Bf16},
                             {FloatType::Bf16, FloatType::F32}, {FloatType::F16, FloatType::Bf16}};
  for (const Axes& a : axes)
    for (const bool channels_last : {true, false})
      for (const Types& t : types)
        shapes.push_back({.images = 3,
                          .channels = a.channels,
                          .rows = a.rows,
                          .columns = a.columns,
                          .channels_last = channels_last,
                          .image_type = t.image,
                          .matrix_type = t.matrix});
  return shapes;
}

/// Shaped [N, C, H, W], in the memory order of the shape.
inline at::Tensor random_images(const PatchShape& s) {
  return at::randn({s.images, s.channels, s.rows.input, s.columns.input})
      .to(torch_type_of(s.image_type))
      .contiguous(s.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

inline at::Tensor poisoned_matrix(const PatchShape& s, at::Device device = at::kCPU) {
  return at::full({s.images * s.rows.output * s.columns.output, patch_columns(patch_numbers(s))},
                  12345, at::TensorOptions(torch_type_of(s.matrix_type)).device(device));
}

inline at::Tensor patches_on_cpu(const PatchShape& s, const at::Tensor& images) {
  at::Tensor matrix = poisoned_matrix(s);
  cpu::image_patches(s, images.data_ptr(), matrix.data_ptr());
  return matrix;
}

}  // namespace triaccel::kernels
