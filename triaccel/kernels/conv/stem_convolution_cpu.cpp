#include "triaccel/kernels/conv/stem_convolution.h"

#include <algorithm>
#include <vector>

#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many products another thread costs more than it saves.
constexpr std::int64_t kProductsAlone = 1 << 17;

std::int64_t window_numbers(const StemConvolutionShape& shape) {
  return image_taps(shape) * shape.channels;
}

/// All that the windows of one image see, rounded: [window row][window column][tap][channel].
template <typename Image, typename Stored>
void cut_windows(const StemConvolutionShape& shape, const void* images, std::int64_t image,
                 float* to) {
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  const std::int64_t pixels = rows.input * columns.input;
  const std::int64_t pixel_step = shape.channels_last ? shape.channels : 1;
  const std::int64_t channel_step = shape.channels_last ? 1 : pixels;
  const auto* from =
      static_cast<const typename Image::Word*>(images) + image * pixels * shape.channels;
  for (std::int64_t row = 0; row < rows.output; ++row)
    for (std::int64_t column = 0; column < columns.output; ++column)
      for (std::int64_t tap = 0; tap < image_taps(shape); ++tap) {
        const std::int64_t y = row * rows.stride - rows.padding + tap / columns.window;
        const std::int64_t x = column * columns.stride - columns.padding + tap % columns.window;
        const bool inside = y >= 0 && y < rows.input && x >= 0 && x < columns.input;
        for (std::int64_t c = 0; c < shape.channels; ++c, ++to)
          *to = inside ? Stored::value(Stored::word(Image::value(
                             from[(y * columns.input + x) * pixel_step + c * channel_step])))
                       : 0.0f;
      }
}

template <typename Image, typename Stored>
void convolve(const StemConvolutionShape& shape, const void* images, const float* weight,
              void* output) {
  const std::int64_t numbers = window_numbers(shape), filters = shape.filters;
  const std::int64_t windows = shape.rows.output * shape.columns.output;
  std::vector<float> rounded(static_cast<std::size_t>(numbers * filters));  // [number][filter]
  for (std::int64_t f = 0; f < filters; ++f)
    for (std::int64_t k = 0; k < numbers; ++k)
      rounded[static_cast<std::size_t>(k * filters + f)] =
          Stored::value(Stored::word(weight[f * numbers + k]));
#pragma omp parallel if (shape.images * windows * numbers * filters > kProductsAlone)
  {
    std::vector<float> seen(static_cast<std::size_t>(windows * numbers));
    std::vector<float> sums(static_cast<std::size_t>(filters));
#pragma omp for schedule(static)
    for (std::int64_t image = 0; image < shape.images; ++image) {
      cut_windows<Image, Stored>(shape, images, image, seen.data());
      auto* to = static_cast<typename Stored::Word*>(output) + image * windows * filters;
      for (std::int64_t w = 0; w < windows; ++w, to += filters) {
        std::ranges::fill(sums, 0.0f);
        for (std::int64_t k = 0; k < numbers; ++k) {
          const float value = seen[static_cast<std::size_t>(w * numbers + k)];
          const float* by = rounded.data() + k * filters;
          for (std::int64_t f = 0; f < filters; ++f)
            sums[static_cast<std::size_t>(f)] += value * by[f];
        }
        for (std::int64_t f = 0; f < filters; ++f)
          to[f] = Stored::word(sums[static_cast<std::size_t>(f)]);
      }
    }
  }
}

template <typename Image, typename Stored>
void add_gradients(const StemConvolutionShape& shape, const void* output_gradient,
                   const void* images, float* weight_gradient) {
  const std::int64_t numbers = window_numbers(shape), filters = shape.filters;
  const std::int64_t windows = shape.rows.output * shape.columns.output;
  std::vector<float> seen(static_cast<std::size_t>(windows * numbers));
  std::vector<double> sums(static_cast<std::size_t>(filters * numbers));
  const auto* from = static_cast<const typename Stored::Word*>(output_gradient);
  for (std::int64_t image = 0; image < shape.images; ++image) {
    cut_windows<Image, Stored>(shape, images, image, seen.data());
    for (std::int64_t w = 0; w < windows; ++w)
      for (std::int64_t f = 0; f < filters; ++f) {
        const double gradient = Stored::value(*from++);
        const float* of_window = seen.data() + w * numbers;
        double* to = sums.data() + f * numbers;
        for (std::int64_t k = 0; k < numbers; ++k) to[k] += gradient * of_window[k];
      }
  }
  std::ranges::transform(sums, weight_gradient, [](double sum) { return static_cast<float>(sum); });
}

template <typename Body>
void with_types(const StemConvolutionShape& shape, Body body) {
  with_stored_type(shape.image_type, [&]<typename Image>(Image image) {
    with_stored_type(shape.type, [&]<typename Stored>(Stored stored) { body(image, stored); });
  });
}

}  // namespace

void stem_convolution(const StemConvolutionShape& shape, const void* images, const float* weight,
                      void* output) {
  with_types(shape, [&]<typename Image, typename Stored>(Image, Stored) {
    convolve<Image, Stored>(shape, images, weight, output);
  });
}

void stem_weight_gradient(const StemConvolutionShape& shape, const void* output_gradient,
                          const void* images, float* weight_gradient) {
  with_types(shape, [&]<typename Image, typename Stored>(Image, Stored) {
    add_gradients<Image, Stored>(shape, output_gradient, images, weight_gradient);
  });
}

}  // namespace triaccel::kernels::cpu
