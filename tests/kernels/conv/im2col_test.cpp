#include "triaccel/kernels/conv/im2col.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace triaccel::kernels {
namespace {

/// Samples whose pixels are all different and not zero, one channel of `Word`s each.
template <typename Word>
struct Maps {
  std::int64_t samples, channels;
  PatchWindows rows, columns;

  std::int64_t row_length() const { return rows.taps * columns.taps * channels; }
  std::int64_t window_rows() const { return samples * rows.windows; }

  Word pixel(std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t c) const {
    if (y < 0 || y >= rows.map || x < 0 || x >= columns.map) return 0;
    return static_cast<Word>(1 + ((n * rows.map + y) * columns.map + x) * channels + c);
  }

  std::vector<Word> pixels() const {
    std::vector<Word> all;
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t y = 0; y < rows.map; ++y)
        for (std::int64_t x = 0; x < columns.map; ++x)
          for (std::int64_t c = 0; c < channels; ++c) all.push_back(pixel(n, y, x, c));
    return all;
  }

  std::vector<Word> expected() const {
    std::vector<Word> matrix;
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t i = 0; i < rows.windows; ++i)
        for (std::int64_t j = 0; j < columns.windows; ++j)
          for (std::int64_t a = 0; a < rows.taps; ++a)
            for (std::int64_t b = 0; b < columns.taps; ++b)
              for (std::int64_t c = 0; c < channels; ++c)
                matrix.push_back(pixel(n, rows.first + i * rows.stride + a * rows.step,
                                       columns.first + j * columns.stride + b * columns.step, c));
    return matrix;
  }

  /// `piece` rows of windows at a time.
  std::vector<Word> extracted(std::int64_t piece) const {
    const std::vector<Word> map = pixels();
    const PatchSource source{.pixels = reinterpret_cast<const std::byte*>(map.data()),
                             .samples = samples,
                             .pixel_bytes = channels * static_cast<std::int64_t>(sizeof(Word)),
                             .rows = rows,
                             .columns = columns};
    const std::int64_t per_window_row = columns.windows * row_length();
    std::vector<Word> matrix(static_cast<std::size_t>(window_rows() * per_window_row), Word{77});
    for (std::int64_t begin = 0; begin < window_rows(); begin += piece)
      cpu::extract_patches(source, begin, std::min(begin + piece, window_rows()),
                           reinterpret_cast<std::byte*>(matrix.data() + begin * per_window_row));
    return matrix;
  }
};

const PatchWindows kPadded = {.map = 5, .windows = 5, .taps = 3, .first = -1};
const PatchWindows kStrided = {.map = 7, .windows = 3, .taps = 3, .first = -1, .stride = 3};
const PatchWindows kDilated = {.map = 6, .windows = 6, .taps = 3, .first = -2, .step = 2};
const PatchWindows kBeyond = {.map = 2, .windows = 4, .taps = 5, .first = -4, .stride = 2};
const PatchWindows kSingle = {};

TEST(ExtractPatches, CopiesEveryWindowWithZerosOutsideTheMap) {
  for (const PatchWindows& rows : {kPadded, kStrided, kDilated, kBeyond, kSingle})
    for (const PatchWindows& columns : {kPadded, kStrided, kDilated, kBeyond, kSingle})
      for (std::int64_t channels : {1, 3, 64}) {
        const Maps<float> wide{2, channels, rows, columns};
        EXPECT_EQ(wide.extracted(100), wide.expected());
        const Maps<std::uint16_t> narrow{2, channels, rows, columns};
        EXPECT_EQ(narrow.extracted(100), narrow.expected());
      }
}

TEST(ExtractPatches, MakesTheSameMatrixPieceByPiece) {
  const Maps<float> maps{3, 2, kPadded, kStrided};
  for (std::int64_t piece : {1, 2, 4, 7, 15}) EXPECT_EQ(maps.extracted(piece), maps.expected());
}

TEST(ExtractPatches, LeavesMemoryAloneWhenThereAreNoSamples) {
  EXPECT_TRUE((Maps<float>{0, 2, kPadded, kPadded}.extracted(1).empty()));
}

}  // namespace
}  // namespace triaccel::kernels
