#include "triaccel/kernels/compression/masks/window_codec.h"

#include <algorithm>

#include "triaccel/base/divide_up.h"

namespace triaccel::kernels::cpu {
namespace {

constexpr std::int64_t kBlockWords = 1024;  // of one turn of a thread

/// Follows the windows in memory order: from where the current one begins.
class WindowWalk {
 public:
  WindowWalk(const WindowPlaces& places, std::int64_t window)
      : places_(places),
        inner_(window % places.inner),
        column_(window / places.inner % places.columns.output),
        row_(window / places.inner / places.columns.output % places.rows.output) {}

  std::int64_t first_row() const { return row_ * places_.rows.stride - places_.rows.padding; }
  std::int64_t first_column() const {
    return column_ * places_.columns.stride - places_.columns.padding;
  }
  void next() {
    if (++inner_ < places_.inner) return;
    inner_ = 0;
    if (++column_ < places_.columns.output) return;
    column_ = 0;
    if (++row_ == places_.rows.output) row_ = 0;
  }

 private:
  const WindowPlaces& places_;
  std::int64_t inner_, column_, row_;
};

/// Calls body(word, first window, end, walk) for every word of taps, on all threads.
template <typename Body>
void for_each_word(const WindowPlaces& places, Body body) {
  const std::int64_t per_word = 32 / window_bits(places);
  const std::int64_t words = divide_up(places.count, per_word);
#pragma omp parallel for schedule(static) if (words > kBlockWords)
  for (std::int64_t block = 0; block < words; block += kBlockWords) {
    WindowWalk walk(places, block * per_word);
    for (std::int64_t word = block; word < std::min(words, block + kBlockWords); ++word)
      body(word, word * per_word, std::min(places.count, (word + 1) * per_word), walk);
  }
}

}  // namespace

void encode_windows(const WindowPlaces& places, const std::int64_t* indices, std::uint32_t* taps) {
  const int bits = window_bits(places);
  // Of 32 bits, as they are quicker to divide.
  const auto map_columns = static_cast<std::uint32_t>(places.columns.input);
  const auto window_columns = static_cast<std::uint32_t>(places.columns.window);
  const auto row_dilation = static_cast<std::uint32_t>(places.row_dilation);
  const auto column_dilation = static_cast<std::uint32_t>(places.column_dilation);
  for_each_word(places, [&](std::int64_t word, std::int64_t first, std::int64_t end,
                            WindowWalk& walk) {
    std::uint32_t joined = 0;
    for (std::int64_t window = first; window < end; ++window, walk.next()) {
      const auto index = static_cast<std::uint32_t>(indices[window]);
      std::uint32_t row = index / map_columns - static_cast<std::uint32_t>(walk.first_row());
      std::uint32_t column = index % map_columns - static_cast<std::uint32_t>(walk.first_column());
      if (row_dilation != 1) row /= row_dilation;
      if (column_dilation != 1) column /= column_dilation;
      joined |= (row * window_columns + column) << (window - first) * bits;
    }
    taps[word] = joined;
  });
}

void decode_windows(const WindowPlaces& places, const std::uint32_t* taps, std::int64_t* indices) {
  const int bits = window_bits(places);
  std::int64_t from_first[256] = {};  // of each tap to the window's first
  for (std::int64_t tap = 0; tap < places.rows.window * places.columns.window; ++tap)
    from_first[tap] = tap / places.columns.window * places.row_dilation * places.columns.input +
                      tap % places.columns.window * places.column_dilation;
  for_each_word(places,
                [&](std::int64_t word, std::int64_t first, std::int64_t end, WindowWalk& walk) {
                  std::uint32_t joined = taps[word];
                  for (std::int64_t window = first; window < end; ++window, walk.next()) {
                    indices[window] = walk.first_row() * places.columns.input +
                                      walk.first_column() + from_first[joined & ((1u << bits) - 1)];
                    joined >>= bits;
                  }
                });
}

}  // namespace triaccel::kernels::cpu
