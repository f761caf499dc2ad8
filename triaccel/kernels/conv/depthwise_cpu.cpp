#include "triaccel/kernels/conv/depthwise.h"

#include <algorithm>
#include <vector>

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/conv/depthwise_work.h"

namespace triaccel::kernels {

std::int64_t depthwise_scratch(const DepthwiseShape& shape) {
  const std::int64_t blocks = weight_gradient_work(shape).blocks;
  return blocks > 1 ? blocks * shape.channels * shape.filter * shape.filter : 0;
}

namespace cpu {
namespace {

/// Below so many products another thread costs more than it saves.
constexpr std::int64_t kProductsAlone = 1 << 17;

std::int64_t products_of(const DepthwiseShape& shape) {
  return shape.images * shape.rows.output * shape.columns.output * shape.channels * shape.filter *
         shape.filter;
}

/// Tap `tap` of one direction: output o reads input o * stride + shift, for o in [begin, end).
struct TapReach {
  std::int64_t shift, begin, end;
};

TapReach reach_of(const DepthwiseAxis& axis, int stride, std::int64_t tap) {
  const std::int64_t shift = tap - axis.padding;
  const std::int64_t begin = shift < 0 ? divide_up(-shift, stride) : 0;
  const std::int64_t end = std::min(axis.output, divide_up(axis.input - shift, stride));
  return {shift, begin, std::max(begin, end)};
}

/// [tap][channel], rounded to the maps' type, so that loops over channels read neighbours.
template <typename Stored>
std::vector<float> rounded_taps(const DepthwiseShape& shape, const float* weight) {
  const std::int64_t taps = shape.filter * shape.filter;
  std::vector<float> rounded(static_cast<std::size_t>(taps * shape.channels));
  for (std::int64_t c = 0; c < shape.channels; ++c)
    for (std::int64_t t = 0; t < taps; ++t)
      rounded[static_cast<std::size_t>(t * shape.channels + c)] =
          Stored::value(Stored::word(weight[c * taps + t]));
  return rounded;
}

template <typename Stored>
void add_product(float* sums, const float* taps, const typename Stored::Word* words,
                 std::int64_t count) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) sums[c] += taps[c] * Stored::value(words[c]);
}

/// Every pixel of the map `to` becomes the sum of taps times pixels of `from`.
/// for_each_source(axis, to's index, body) calls body(from's index, tap) for the sources in one
/// direction.
template <typename Stored, typename ForEachSource>
void filter_map(const DepthwiseShape& shape, const void* from, std::int64_t from_rows,
                std::int64_t from_columns, const float* weight, void* to, std::int64_t to_rows,
                std::int64_t to_columns, ForEachSource for_each_source) {
  using Word = typename Stored::Word;
  const std::int64_t channels = shape.channels;
  const std::vector<float> taps = rounded_taps<Stored>(shape, weight);
#pragma omp parallel if (products_of(shape) > kProductsAlone)
  {
    std::vector<float> sums(static_cast<std::size_t>(channels));
#pragma omp for schedule(static)
    for (std::int64_t line = 0; line < shape.images * to_rows; ++line) {
      const Word* image =
          static_cast<const Word*>(from) + line / to_rows * from_rows * from_columns * channels;
      Word* target = static_cast<Word*>(to) + line * to_columns * channels;
      for (std::int64_t x = 0; x < to_columns; ++x, target += channels) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        for_each_source(shape.rows, line % to_rows, [&](std::int64_t row, std::int64_t tap_row) {
          for_each_source(shape.columns, x, [&](std::int64_t column, std::int64_t tap_column) {
            add_product<Stored>(sums.data(),
                                taps.data() + (tap_row * shape.filter + tap_column) * channels,
                                image + (row * from_columns + column) * channels, channels);
          });
        });
        for (std::int64_t c = 0; c < channels; ++c)
          target[c] = Stored::word(sums[static_cast<std::size_t>(c)]);
      }
    }
  }
}

constexpr std::int64_t kBlock = 16;  // channels added up together
constexpr int kWidest = 5;           // taps in one direction, at most

/// One row of taps of one block of channels. FP32 within a row of the map, FP64 beyond.
template <typename Stored>
void weight_gradient_row(const DepthwiseShape& shape, const typename Stored::Word* output_gradient,
                         const typename Stored::Word* input, std::int64_t first_channel,
                         std::int64_t tap_row, float* weight_gradient) {
  const std::int64_t channels = shape.channels;
  const std::int64_t count = std::min(kBlock, channels - first_channel);
  const TapReach rows = reach_of(shape.rows, shape.stride, tap_row);
  TapReach columns[kWidest];
  for (int tap = 0; tap < shape.filter; ++tap)
    columns[tap] = reach_of(shape.columns, shape.stride, tap);
  double totals[kWidest][kBlock] = {};
  for (std::int64_t image = 0; image < shape.images; ++image)
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const auto* dy = output_gradient +
                       (image * shape.rows.output + row) * shape.columns.output * channels +
                       first_channel;
      const std::int64_t input_row = image * shape.rows.input + row * shape.stride + rows.shift;
      const auto* x = input + input_row * shape.columns.input * channels + first_channel;
      for (int tap = 0; tap < shape.filter; ++tap) {
        float sums[kBlock] = {};
        const TapReach& reach = columns[tap];
        for (std::int64_t o = reach.begin; o < reach.end; ++o) {
          const auto* dy_pixel = dy + o * channels;
          const auto* x_pixel = x + (o * shape.stride + reach.shift) * channels;
          for (std::int64_t c = 0; c < count; ++c)
            sums[c] += Stored::value(dy_pixel[c]) * Stored::value(x_pixel[c]);
        }
        for (std::int64_t c = 0; c < count; ++c) totals[tap][c] += double{sums[c]};
      }
    }
  for (std::int64_t c = 0; c < count; ++c)
    for (int tap = 0; tap < shape.filter; ++tap)
      weight_gradient[((first_channel + c) * shape.filter + tap_row) * shape.filter + tap] =
          static_cast<float>(totals[tap][c]);
}

}  // namespace

void depthwise_forward(const DepthwiseShape& shape, const void* input, const float* weight,
                       void* output) {
  const auto sources = [&](const DepthwiseAxis& axis, std::int64_t o, auto body) {
    const std::int64_t first = o * shape.stride - axis.padding;
    const std::int64_t end = std::min<std::int64_t>(shape.filter, axis.input - first);
    for (std::int64_t tap = std::max<std::int64_t>(0, -first); tap < end; ++tap)
      body(first + tap, tap);
  };
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    filter_map<Stored>(shape, input, shape.rows.input, shape.columns.input, weight, output,
                       shape.rows.output, shape.columns.output, sources);
  });
}

void depthwise_input_gradient(const DepthwiseShape& shape, const void* output_gradient,
                              const float* weight, void* input_gradient) {
  const auto sources = [&](const DepthwiseAxis& axis, std::int64_t i, auto body) {
    for (std::int64_t tap = 0; tap < shape.filter; ++tap) {
      const std::int64_t strided = i + axis.padding - tap;
      if (strided >= 0 && strided % shape.stride == 0 && strided / shape.stride < axis.output)
        body(strided / shape.stride, tap);
    }
  };
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    filter_map<Stored>(shape, output_gradient, shape.rows.output, shape.columns.output, weight,
                       input_gradient, shape.rows.input, shape.columns.input, sources);
  });
}

void depthwise_weight_gradient(const DepthwiseShape& shape, const void* output_gradient,
                               const void* input, float* weight_gradient) {
  const std::int64_t blocks = divide_up(shape.channels, kBlock);
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    using Word = typename Stored::Word;
#pragma omp parallel for schedule(static) if (products_of(shape) > kProductsAlone)
    for (std::int64_t task = 0; task < blocks * shape.filter; ++task)
      weight_gradient_row<Stored>(shape, static_cast<const Word*>(output_gradient),
                                  static_cast<const Word*>(input), task / shape.filter * kBlock,
                                  task % shape.filter, weight_gradient);
  });
}

}  // namespace cpu
}  // namespace triaccel::kernels
