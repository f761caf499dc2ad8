#include "triaccel/kernels/conv/max_pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

/// Below so many elements another thread costs more than it saves.
constexpr std::int64_t kElementsAlone = 1 << 14;

/// A half-open range of taps or windows.
struct Range {
  std::int64_t begin, end;
};

/// The taps of a window that lie in the map.
Range taps_inside(const WindowAxis& axis, std::int64_t window) {
  const std::int64_t first = window * axis.stride - axis.padding;
  return {std::max<std::int64_t>(0, -first), std::min(axis.window, axis.input - first)};
}

/// The windows that see a position of the map.
Range windows_over(const WindowAxis& axis, std::int64_t position) {
  const std::int64_t padded = position + axis.padding, before = padded - axis.window;
  return {before < 0 ? 0 : before / axis.stride + 1,
          std::min(axis.output, padded / axis.stride + 1)};
}

template <typename Stored>
void pool(const PoolShape& shape, const void* map, void* values, std::uint8_t* taps) {
  using Word = typename Stored::Word;
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  const std::int64_t channels = shape.channels, lines = shape.images * rows.output;
#pragma omp parallel if (lines * columns.output * channels > kElementsAlone)
  {
    std::vector<float> largest(static_cast<std::size_t>(channels));
#pragma omp for schedule(static)
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t image = line / rows.output, row = line % rows.output;
      const Range live_rows = taps_inside(rows, row);
      for (std::int64_t column = 0; column < columns.output; ++column) {
        const Range live = taps_inside(columns, column);
        const std::int64_t at = (line * columns.output + column) * channels;
        float* best = largest.data();
        std::uint8_t* where = taps + at;
        std::fill(best, best + channels, -std::numeric_limits<float>::infinity());
        std::fill(where, where + channels,
                  static_cast<std::uint8_t>(live_rows.begin * columns.window + live.begin));
        for (std::int64_t r = live_rows.begin; r < live_rows.end; ++r)
          for (std::int64_t c = live.begin; c < live.end; ++c) {
            const std::int64_t y = row * rows.stride - rows.padding + r;
            const std::int64_t x = column * columns.stride - columns.padding + c;
            const Word* from = static_cast<const Word*>(map) +
                               ((image * rows.input + y) * columns.input + x) * channels;
            const auto tap = static_cast<std::uint8_t>(r * columns.window + c);
#pragma omp simd
            for (std::int64_t k = 0; k < channels; ++k) {
              const float value = Stored::value(from[k]);
              const bool wins = replaces(value, best[k]);
              best[k] = wins ? value : best[k];
              where[k] = wins ? tap : where[k];
            }
          }
        Word* to = static_cast<Word*>(values) + at;
        for (std::int64_t k = 0; k < channels; ++k) to[k] = Stored::word(best[k]);
      }
    }
  }
}

template <typename Stored>
void gather(const PoolShape& shape, const void* output_gradient, const void* second_gradient,
            const std::uint8_t* taps, void* map_gradient) {
  using Word = typename Stored::Word;
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  const std::int64_t channels = shape.channels, lines = shape.images * rows.input;
#pragma omp parallel if (lines * columns.input * channels > kElementsAlone)
  {
    std::vector<float> sums(static_cast<std::size_t>(channels));
    std::vector<Word> added(static_cast<std::size_t>(channels));
#pragma omp for schedule(static)
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t image = line / rows.input, y = line % rows.input;
      const Range row_range = windows_over(rows, y);
      for (std::int64_t x = 0; x < columns.input; ++x) {
        const Range range = windows_over(columns, x);
        float* sum = sums.data();
        std::fill(sum, sum + channels, 0.0f);
        for (std::int64_t row = row_range.begin; row < row_range.end; ++row)
          for (std::int64_t column = range.begin; column < range.end; ++column) {
            const std::int64_t at =
                ((image * rows.output + row) * columns.output + column) * channels;
            const Word* gradient = static_cast<const Word*>(output_gradient) + at;
            if (second_gradient != nullptr) {
              const Word* second = static_cast<const Word*>(second_gradient) + at;
              for (std::size_t k = 0; k < added.size(); ++k)
                added[k] = Stored::word(Stored::value(gradient[k]) + Stored::value(second[k]));
              gradient = added.data();
            }
            const auto tap =
                static_cast<std::uint8_t>((y + rows.padding - row * rows.stride) * columns.window +
                                          x + columns.padding - column * columns.stride);
#pragma omp simd
            for (std::int64_t k = 0; k < channels; ++k)
              sum[k] += taps[at + k] == tap ? Stored::value(gradient[k]) : 0.0f;
          }
        Word* to = static_cast<Word*>(map_gradient) + (line * columns.input + x) * channels;
        for (std::int64_t k = 0; k < channels; ++k) to[k] = Stored::word(sum[k]);
      }
    }
  }
}

}  // namespace

void max_pool(const PoolShape& shape, const void* map, void* values, std::uint8_t* taps) {
  with_stored_type(shape.type,
                   [&]<typename Stored>(Stored) { pool<Stored>(shape, map, values, taps); });
}

void max_pool_gradient(const PoolShape& shape, const void* output_gradient,
                       const void* second_gradient, const std::uint8_t* taps, void* map_gradient) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    gather<Stored>(shape, output_gradient, second_gradient, taps, map_gradient);
  });
}

}  // namespace triaccel::kernels::cpu
