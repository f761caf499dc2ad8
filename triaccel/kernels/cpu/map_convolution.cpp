#include "triaccel/kernels/map_convolution.h"

#include <vector>

#include "triaccel/kernels/float_type_math.h"
#include "triaccel/kernels/map_convolution_work.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many products another thread costs more than it saves.
constexpr std::int64_t kProductsAlone = 1 << 17;

/// weight_at(tap, read channel, written channel) is a place in `weight`.
template <typename Stored, typename WeightAt>
void multiply(const MapProduct& product, const void* map, const void* weight, void* output,
              WeightAt weight_at) {
  using Word = typename Stored::Word;
  const ReadAxis &rows = product.rows, &columns = product.columns;
  const std::int64_t in = product.read_channels, out = product.written_channels;
  const std::int64_t sample_pixels = std::int64_t{rows.written} * columns.written;
#pragma omp parallel for schedule(static) if (product.pixels * product.taps() * in * out > \
                                              kProductsAlone)
  for (std::int64_t pixel = 0; pixel < product.pixels; ++pixel) {
    std::vector<float> sums(static_cast<std::size_t>(out));
    const std::int64_t sample = pixel / sample_pixels;
    const std::int64_t row = pixel % sample_pixels / columns.written,
                       column = pixel % columns.written;
    for (std::int64_t tap = 0; tap < product.taps(); ++tap) {
      const std::int64_t y = row * rows.stride + rows.first + tap / columns.taps * rows.step;
      const std::int64_t x =
          column * columns.stride + columns.first + tap % columns.taps * columns.step;
      if (y < 0 || y >= rows.read || x < 0 || x >= columns.read) continue;
      const Word* from =
          static_cast<const Word*>(map) + ((sample * rows.read + y) * columns.read + x) * in;
      for (std::int64_t i = 0; i < in; ++i) {
        const float value = Stored::value(from[i]);
        for (std::int64_t o = 0; o < out; ++o)
          sums[static_cast<std::size_t>(o)] +=
              value * Stored::value(static_cast<const Word*>(weight)[weight_at(tap, i, o)]);
      }
    }
    Word* to = static_cast<Word*>(output) + pixel * out;
    for (std::int64_t o = 0; o < out; ++o) to[o] = Stored::word(sums[static_cast<std::size_t>(o)]);
  }
}

}  // namespace

void map_convolution(const MapConvolutionShape& shape, const void* map, const void* weight,
                     void* output) {
  const MapProduct product = forward_product(shape);
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    multiply<Stored>(product, map, weight, output,
                     [&](std::int64_t tap, std::int64_t channel, std::int64_t filter) {
                       return (filter * product.taps() + tap) * shape.channels + channel;
                     });
  });
}

void map_input_gradient(const MapConvolutionShape& shape, const void* output_gradient,
                        const void* weight, void* input_gradient) {
  const MapProduct product = gradient_product(shape);
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    multiply<Stored>(product, output_gradient, weight, input_gradient,
                     [&](std::int64_t tap, std::int64_t filter, std::int64_t channel) {
                       return (filter * product.taps() + tap) * shape.channels + channel;
                     });
  });
}

}  // namespace triaccel::kernels::cpu
