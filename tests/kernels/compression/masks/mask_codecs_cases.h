#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/compression/codec_cases.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/compression/masks/bit_mask_codec.h"
#include "triaccel/kernels/compression/masks/window_codec.h"

namespace triaccel::kernels::mask_cases {

inline constexpr MaskElement kElements[] = {MaskElement::Bool, MaskElement::F32, MaskElement::Bf16,
                                            MaskElement::F16};
inline constexpr MaskTest kTests[] = {MaskTest::Positive, MaskTest::NotZero};

/// Zeros of both signs, numbers of both signs, NaNs and infinities.
inline float awkward_value(std::int64_t i) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float values[] = {0.0f, -0.0f,    1.5f,      -2.0f, nan,
                              -nan, infinity, -infinity, 0.25f, 0.0f};
  return values[random_words(3, static_cast<std::uint64_t>(i)).words[0] % 10];
}

/// Indices that their windows see, seven maps side by side where channels come last.
struct WindowCase {
  WindowPlaces places;
  std::vector<std::int64_t> indices;
};

inline WindowCase window_case(const WindowPlaces& places) {
  WindowCase made = {places, {}};
  WindowPlaces& p = made.places;
  const auto fit = [](WindowAxis& axis, std::int64_t dilation) {
    const std::int64_t span = dilation * (axis.window - 1) + 1;
    axis.output = (axis.input + 2 * axis.padding - span) / axis.stride + 1;
  };
  fit(p.rows, p.row_dilation);
  fit(p.columns, p.column_dilation);
  p.count = 3 * 7 * p.rows.output * p.columns.output;
  for (std::uint64_t draw = 0; static_cast<std::int64_t>(made.indices.size()) < p.count; ++draw) {
    const std::int64_t window = static_cast<std::int64_t>(made.indices.size()) / p.inner;
    const RandomWords tap = random_words(1, draw);
    const std::int64_t row = window / p.columns.output % p.rows.output * p.rows.stride -
                             p.rows.padding + tap.words[0] % p.rows.window * p.row_dilation;
    const std::int64_t column = window % p.columns.output * p.columns.stride - p.columns.padding +
                                tap.words[1] % p.columns.window * p.column_dilation;
    if (row >= 0 && row < p.rows.input && column >= 0 && column < p.columns.input)
      made.indices.push_back(row * p.columns.input + column);
  }
  return made;
}

inline std::vector<WindowCase> window_cases() {
  struct Windows {
    std::int64_t rows, columns, window_rows, window_columns, stride, padding, dilation;
  };
  constexpr Windows all[] = {{8, 9, 2, 2, 2, 0, 1},   {9, 7, 3, 3, 2, 1, 1},
                             {1, 1, 3, 3, 1, 1, 1},   {10, 11, 4, 4, 3, 2, 1},
                             {20, 23, 3, 5, 2, 1, 2}, {9, 9, 16, 16, 1, 8, 1}};
  std::vector<WindowCase> cases;
  for (const Windows& w : all)
    for (const std::int64_t inner : {1, 7})
      cases.push_back(window_case({.inner = inner,
                                   .rows = {w.rows, 1, w.window_rows, w.stride, w.padding},
                                   .columns = {w.columns, 1, w.window_columns, w.stride, w.padding},
                                   .row_dilation = w.dilation,
                                   .column_dilation = w.dilation}));
  return cases;
}

inline std::size_t tap_words(const WindowPlaces& places) {
  return static_cast<std::size_t>(
      window_bytes(places.count, places.rows.window * places.columns.window) / 4);
}

/// Masks are cheap: many words too.
inline std::vector<std::int64_t> mask_counts() {
  std::vector<std::int64_t> counts = odd_counts();
  counts.insert(counts.end(), {16384, 20011});
  return counts;
}

}  // namespace triaccel::kernels::mask_cases
