#include "triaccel/layers/convolution/gemm_convolution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/conv/im2col.h"
#include "triaccel/layers/convolution/live_taps.h"

namespace triaccel {
namespace {

using kernels::PatchWindows;

/// The most a piece of the matrix of windows may take, unless a single row of windows takes more.
constexpr std::int64_t kPatchBytes = std::int64_t{8} << 20;

struct Windows {
  PatchWindows rows;
  PatchWindows columns;

  std::int64_t per_sample() const { return rows.windows * columns.windows; }
  std::int64_t taps() const { return rows.taps * columns.taps; }
};

/// Maps of one dimension become maps of one row.
at::Tensor as_map(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(2) : tensor;
}

at::Tensor like(const at::Tensor& map, const at::Tensor& model) {
  return model.dim() == 3 ? map.squeeze(2) : map;
}

/// [samples, rows, columns, channels], dense.
at::Tensor as_pixels(const at::Tensor& tensor) {
  return as_map(tensor).permute({0, 2, 3, 1}).contiguous();
}

/// A convolution along one of the two dimensions of a map.
TapGeometry tap_geometry(const at::Tensor& input, const at::Tensor& weight,
                         const ConvolutionGeometry& geometry, bool columns) {
  if (input.dim() == 3 && !columns) return {};
  const std::size_t i = geometry.stride.size() - (columns ? 1 : 2);
  const std::int64_t dimension = columns ? -1 : -2;
  return {.map = input.size(dimension),
          .kernel = weight.size(dimension),
          .stride = geometry.stride[i],
          .padding = geometry.padding[i],
          .dilation = geometry.dilation[i]};
}

PatchWindows forward_windows(const TapGeometry& g) {
  return {.map = g.map,
          .windows = output_size(g),
          .taps = g.kernel,
          .first = -g.padding,
          .stride = g.stride,
          .step = g.dilation};
}

Windows forward_windows(const at::Tensor& input, const at::Tensor& weight,
                        const ConvolutionGeometry& geometry) {
  return {forward_windows(tap_geometry(input, weight, geometry, false)),
          forward_windows(tap_geometry(input, weight, geometry, true))};
}

/// Whether the windows, in order, are the map itself: one window of all of it, or windows of one
/// position each.
bool is_whole(const PatchWindows& w) {
  return w.windows == 1 && w.first == 0 && w.taps == w.map && (w.step == 1 || w.taps == 1);
}
bool is_pointwise(const PatchWindows& w) {
  return w.taps == 1 && w.first == 0 && w.windows == w.map && (w.stride == 1 || w.windows == 1);
}
bool is_map_itself(const Windows& windows) {
  if (is_whole(windows.rows) && is_whole(windows.columns)) return true;
  return is_pointwise(windows.rows) && (is_pointwise(windows.columns) || is_whole(windows.columns));
}

/// Calls work(first row, rows of the matrix of windows) for piece after piece.
template <typename Work>
void for_each_piece(const at::Tensor& pixels, const Windows& windows, Work work) {
  const std::int64_t samples = pixels.size(0), channels = pixels.size(3);
  const std::int64_t row_length = windows.taps() * channels;
  if (samples * windows.per_sample() == 0) return;
  if (is_map_itself(windows)) return work(std::int64_t{0}, pixels.view({-1, row_length}));
  const std::int64_t element = pixels.element_size();
  const std::int64_t window_rows = samples * windows.rows.windows;
  const std::int64_t columns = windows.columns.windows;
  const std::int64_t fitting =
      std::max<std::int64_t>(1, kPatchBytes / (columns * row_length * element));
  const std::int64_t pieces = divide_up(window_rows, fitting);
  const std::int64_t piece = divide_up(window_rows, pieces);
  const at::Tensor buffer = at::empty({piece * columns, row_length}, pixels.options());
  const kernels::PatchSource source{
      .pixels = static_cast<const std::byte*>(pixels.const_data_ptr()),
      .samples = samples,
      .pixel_bytes = channels * element,
      .rows = windows.rows,
      .columns = windows.columns};
  for (std::int64_t begin = 0; begin < window_rows; begin += piece) {
    const std::int64_t end = std::min(begin + piece, window_rows);
    kernels::cpu::extract_patches(source, begin, end,
                                  static_cast<std::byte*>(buffer.mutable_data_ptr()));
    work(begin * columns, buffer.narrow(0, 0, (end - begin) * columns));
  }
}

/// The matrix of windows times `weights` [taps * channels, outputs].
at::Tensor windows_times(const at::Tensor& pixels, const Windows& windows,
                         const at::Tensor& weights) {
  at::Tensor product =
      at::empty({pixels.size(0) * windows.per_sample(), weights.size(1)}, pixels.options());
  for_each_piece(pixels, windows, [&](std::int64_t begin, const at::Tensor& rows) {
    at::Tensor part = product.narrow(0, begin, rows.size(0));
    at::mm_out(part, rows, weights);
  });
  return product;
}

/// The inputs of one dimension that lie at `residue`, `residue` + stride, …: each is the sum over
/// the same taps, counted from the last, of a window of the outputs. Empty when no tap meets them.
struct ResidueClass {
  PatchWindows windows;
  std::int64_t first_tap = 0;  // of the kernel
  std::int64_t tap_step = 1;
};

ResidueClass residue_class(const TapGeometry& g, std::int64_t residue) {
  const std::int64_t common = std::gcd(g.stride, g.dilation);
  const std::int64_t tap_step = g.stride / common;
  std::int64_t first = 0;
  while (first < std::min(tap_step, g.kernel) &&
         (residue + g.padding - first * g.dilation) % g.stride != 0)
    ++first;
  const std::int64_t taps =
      first < std::min(tap_step, g.kernel) ? (g.kernel - 1 - first) / tap_step + 1 : 0;
  const std::int64_t last = first + (taps - 1) * tap_step;
  return {.windows = {.map = output_size(g),
                      .windows = divide_up(g.map - residue, g.stride),
                      .taps = taps,
                      .first = (residue + g.padding - last * g.dilation) / g.stride,
                      .stride = 1,
                      .step = g.dilation / common},
          .first_tap = first,
          .tap_step = tap_step};
}

/// The weights that residue classes meet, as [taps * out, in], the last tap first.
at::Tensor weights_of(const at::Tensor& weight, const ResidueClass& rows,
                      const ResidueClass& columns) {
  return as_map(weight)
      .permute({2, 3, 0, 1})
      .slice(0, rows.first_tap, {}, rows.tap_step)
      .slice(1, columns.first_tap, {}, columns.tap_step)
      .flip({0, 1})
      .contiguous()
      .view({-1, weight.size(1)});
}

/// `weight` as [out, taps * in].
at::Tensor weight_rows(const at::Tensor& weight) {
  return as_pixels(weight).view({weight.size(0), -1});
}

}  // namespace

bool gemm_computes(const ConvolutionGeometry& geometry) {
  return !geometry.transposed && geometry.groups == 1 && geometry.stride.size() <= 2;
}

bool gemm_needs_no_patches(const at::Tensor& input, const at::Tensor& weight,
                           const ConvolutionGeometry& geometry) {
  return gemm_computes(geometry) && is_map_itself(forward_windows(input, weight, geometry));
}

at::Tensor gemm_convolution(const at::Tensor& input, const at::Tensor& weight,
                            const ConvolutionGeometry& geometry) {
  const Windows windows = forward_windows(input, weight, geometry);
  const at::Tensor output = windows_times(as_pixels(input), windows, weight_rows(weight).t());
  return like(
      output.view({input.size(0), windows.rows.windows, windows.columns.windows, weight.size(0)})
          .permute({0, 3, 1, 2}),
      input);
}

at::Tensor gemm_input_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                               const at::Tensor& weight, const ConvolutionGeometry& geometry) {
  const at::Tensor outputs = as_pixels(output_gradient);
  const TapGeometry rows = tap_geometry(input, weight, geometry, false);
  const TapGeometry columns = tap_geometry(input, weight, geometry, true);
  const std::int64_t samples = input.size(0), channels = input.size(1);
  if (is_map_itself(forward_windows(input, weight, geometry)))
    return like(at::mm(outputs.view({-1, weight.size(0)}), weight_rows(weight))
                    .view({samples, rows.map, columns.map, channels})
                    .permute({0, 3, 1, 2}),
                input);
  at::Tensor gradient;
  const bool one_class = rows.stride == 1 && columns.stride == 1;
  if (!one_class)
    gradient = at::empty({samples, rows.map, columns.map, channels}, outputs.options());
  for (std::int64_t y = 0; y < std::min(rows.stride, rows.map); ++y) {
    for (std::int64_t x = 0; x < std::min(columns.stride, columns.map); ++x) {
      const ResidueClass row_class = residue_class(rows, y);
      const ResidueClass column_class = residue_class(columns, x);
      const Windows windows{row_class.windows, column_class.windows};
      at::Tensor part;
      if (windows.taps() > 0)
        part = windows_times(outputs, windows, weights_of(weight, row_class, column_class))
                   .view({samples, windows.rows.windows, windows.columns.windows, channels});
      if (one_class) {
        gradient = part;
        continue;
      }
      const at::Tensor place =
          gradient.slice(1, y, {}, rows.stride).slice(2, x, {}, columns.stride);
      part.defined() ? place.copy_(part) : place.zero_();
    }
  }
  return like(gradient.permute({0, 3, 1, 2}), input);
}

at::Tensor gemm_weight_gradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                const at::Tensor& weight, const ConvolutionGeometry& geometry) {
  const Windows windows = forward_windows(input, weight, geometry);
  const at::Tensor outputs = as_pixels(output_gradient).view({-1, weight.size(0)});
  at::Tensor sum;
  for_each_piece(as_pixels(input), windows, [&](std::int64_t begin, const at::Tensor& rows) {
    const at::Tensor part = at::mm(outputs.narrow(0, begin, rows.size(0)).t(), rows);
    sum = sum.defined() ? sum.to(at::kFloat).add_(part) : part;
  });
  if (!sum.defined())
    sum = at::zeros({weight.size(0), windows.taps() * weight.size(1)}, input.options());
  return like(sum.view({weight.size(0), windows.rows.taps, windows.columns.taps, weight.size(1)})
                  .permute({0, 3, 1, 2}),
              weight);
}

}  // namespace triaccel
