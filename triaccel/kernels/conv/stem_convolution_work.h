#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/conv/stem_convolution.h"

namespace triaccel::kernels {

// How a device shares a convolution over images. A block copies what the windows of a tile see into
// shared memory, four 16-bit channels a pixel, the added ones zero, and multiplies from there by
// mma.m16n8k16. That instruction spreads its matrices over the 32 lanes of a warp, row = lane / 4
// and slot = lane % 4, as (PTX ISA, "Matrix Fragments for mma.m16n8k16"; pairs of 16-bit numbers,
// the first one lowest):
//   A [16][16], four pairs:  0: [row][2 slot ..]       1: [row + 8][2 slot ..]
//                            2: [row][2 slot + 8 ..]   3: [row + 8][2 slot + 8 ..]
//   B [16][8], two pairs:    0: [2 slot ..][row]       1: [2 slot + 8 ..][row]
//   D [16][8], four floats:  0, 1: [row][2 slot ..]    2, 3: [row + 8][2 slot ..]
// Which number of ours stands for which row, column and inner index is free as long as A and B
// agree.
//
// Forward, A = filters, B = windows: the four inner indices of a slot are the four channels of one
// tap, so that a lane reads a pixel of a window as one word of eight bytes. Rows are filters in the
// order that gives a lane neighbours of the output to store together.
//
// Weight gradient, A = filters, B = taps, inner index = windows: a column is a tap, and the
// channels are matrices of their own, so that a lane reads two pixels and has a pair for each
// channel.

inline constexpr int kTileWindows = 128;
inline constexpr int kTilePixels = 1024;  // of shared memory, eight bytes each
inline constexpr int kStepTaps = 4;       // of the forward pass: an inner extent of 16
inline constexpr int kGroupTaps = 8;      // of the weight gradient: the columns of a matrix

/// Tiles of windows, which cover the output of every image; those at its lower and right ends may
/// reach beyond it.
struct StemTiles {
  std::int32_t rows, columns;            // windows of a tile
  std::int32_t row_tiles, column_tiles;  // of an image
  std::int32_t seen_rows, seen_columns;  // pixels that a tile sees
  std::int32_t pitch;                    // from one row of them to the next in shared memory
  std::int64_t count;                    // in all images

  constexpr std::int32_t windows() const { return rows * columns; }
};

/// Empty where a tile would hold less than one matrix of windows, or taps and channels are too
/// many.
constexpr std::optional<StemTiles> cut_stem_tiles(const StemConvolutionShape& shape) {
  constexpr std::int64_t least_windows = 16, banks = 16;  // banks of eight bytes
  const WindowAxis &rows = shape.rows, &columns = shape.columns;
  if (image_taps(shape) > kMaxStemTaps || shape.channels > kMaxStemChannels ||
      shape.filters % 8 != 0)
    return {};
  const auto even = [](std::int64_t count, std::int64_t size) {  // parts of about equal size
    return divide_up(count, divide_up(count, size));
  };
  std::optional<StemTiles> best;
  std::int64_t least_cost = 0;
  for (std::int64_t most = 1; most <= std::min<std::int64_t>(columns.output, kTileWindows);
       ++most) {
    const std::int64_t width = even(columns.output, most);
    const std::int64_t seen_columns = (width - 1) * columns.stride + columns.window;
    if (seen_columns > kTilePixels) break;
    // Taps of the next row follow those of this one in banks of shared memory, too: the reads of
    // four windows side by side then meet in none.
    const std::int64_t wanted_bank = (columns.window + 3 * columns.stride) % banks;
    const std::int64_t pitch = seen_columns + (wanted_bank + banks - seen_columns % banks) % banks;
    if (rows.window * pitch > kTilePixels) continue;
    const std::int64_t fitting_rows = (kTilePixels / pitch - rows.window) / rows.stride + 1;
    const std::int64_t height =
        even(rows.output, std::min({rows.output, kTileWindows / width, fitting_rows}));
    if (width * height < std::min(least_windows, rows.output * columns.output)) continue;
    const std::int64_t seen_rows = (height - 1) * rows.stride + rows.window;
    const std::int64_t row_tiles = divide_up(rows.output, height);
    const std::int64_t column_tiles = divide_up(columns.output, width);
    const std::int64_t cost = row_tiles * column_tiles * (kTileWindows + seen_rows * seen_columns);
    if (best && cost >= least_cost) continue;
    least_cost = cost;
    best = StemTiles{.rows = static_cast<std::int32_t>(height),
                     .columns = static_cast<std::int32_t>(width),
                     .row_tiles = static_cast<std::int32_t>(row_tiles),
                     .column_tiles = static_cast<std::int32_t>(column_tiles),
                     .seen_rows = static_cast<std::int32_t>(seen_rows),
                     .seen_columns = static_cast<std::int32_t>(seen_columns),
                     .pitch = static_cast<std::int32_t>(pitch),
                     .count = shape.images * row_tiles * column_tiles};
  }
  return best;
}

/// Where the pixels of a window begin in a tile. Windows are numbered row by row; those beyond the
/// last, which fill up a matrix, see what the last one sees.
TRIACCEL_HOST_DEVICE constexpr std::int32_t window_pixel(const StemTiles& tiles,
                                                         std::int32_t row_stride,
                                                         std::int32_t column_stride,
                                                         std::int32_t window) {
  const std::int32_t live = window < tiles.windows() ? window : tiles.windows() - 1;
  return live / tiles.columns * row_stride * tiles.pitch + live % tiles.columns * column_stride;
}

/// Where the pixel of a tap lies, from its window's first. Taps beyond the last are the last one.
TRIACCEL_HOST_DEVICE constexpr std::int32_t tap_pixel(const StemTiles& tiles, std::int32_t taps,
                                                      std::int32_t tap_columns, std::int32_t tap) {
  const std::int32_t live = tap < taps ? tap : taps - 1;
  return live / tap_columns * tiles.pitch + live % tap_columns;
}

/// The filters of the output, 32 or 64 of which one block takes.
struct FilterGroups {
  std::int64_t filters;  // of a group; the last may have fewer
  std::int64_t count;
};

constexpr FilterGroups group_filters(std::int64_t filters) {
  const std::int64_t wide = (filters + 63) % 64 >= 32 ? 64 : 32;
  return {.filters = wide, .count = divide_up(filters, wide)};
}

/// Forward: the filter of its group that row `row` of matrix `matrix` stands for, of groups of
/// `matrices` times 16. A lane's D of all matrices are the 2 * matrices filters from
/// 2 * matrices * (lane / 4) on.
TRIACCEL_HOST_DEVICE constexpr std::int32_t filter_of(std::int32_t matrices, std::int32_t matrix,
                                                      std::int32_t row) {
  return (row % 8 * matrices + matrix) * 2 + row / 8;
}

/// Forward: where the first two channels of a filter's tap stand among the pairs that hold the
/// weights of a group, the other two standing kOtherChannels after them: [step][matrix][lane][four
/// pairs of A], so that a lane reads its share of a matrix as 16 bytes. The gap between steps keeps
/// the lanes that write taps in different banks.
TRIACCEL_HOST_DEVICE constexpr std::int32_t pairs_a_step(std::int32_t filters) {
  constexpr std::int32_t gap = 16;
  return filters * kStepTaps * 2 + gap;
}
inline constexpr int kOtherChannels = 2;
TRIACCEL_HOST_DEVICE constexpr std::int32_t weight_pair(std::int32_t filters, std::int32_t filter,
                                                        std::int32_t tap) {
  const std::int32_t matrices = filters / 16;
  const std::int32_t matrix = filter / 2 % matrices, row = filter / 2 / matrices;
  const std::int32_t lane = row * 4 + tap % kStepTaps;
  return tap / kStepTaps * pairs_a_step(filters) + (matrix * 32 + lane) * 4 + filter % 2;
}

/// Weight gradient: each block adds up many tiles for one group of filters, and leaves its sums.
struct ImageGradientWork {
  StemTiles tiles;
  FilterGroups groups;
  std::int64_t blocks;  // for each group of filters
  std::int64_t tap_groups;
  std::int64_t partial;  // numbers that the blocks of all groups leave together
};

inline constexpr int kGradientWarps = 8;

/// Weight gradient: the window that inner index `inner` stands for. The four slots read windows
/// side by side, in different banks of shared memory, as they do in the forward pass.
TRIACCEL_HOST_DEVICE constexpr std::int32_t window_of(std::int32_t inner) {
  return inner / 8 * 8 + inner % 8 / 2 + inner % 2 * 4;
}

constexpr ImageGradientWork image_gradient_work(const StemConvolutionShape& shape,
                                                const StemTiles& tiles) {
  constexpr std::int64_t most_blocks = 264, least_tiles = 4;  // two blocks a multiprocessor
  const FilterGroups groups = group_filters(shape.filters);
  const std::int64_t tap_groups = divide_up(image_taps(shape), kGroupTaps);
  return {.tiles = tiles,
          .groups = groups,
          .blocks = std::clamp<std::int64_t>(divide_up(tiles.count, least_tiles), 1,
                                             std::max<std::int64_t>(1, most_blocks / groups.count)),
          .tap_groups = tap_groups,
          .partial = groups.count * groups.filters * tap_groups * kGroupTaps * shape.channels};
}

/// What stands at place `index` of a block's sums, [group of filters][group of taps][16 filters]
/// [channel][lane][four floats of D]. Filter and tap may lie beyond the last.
struct GradientPlace {
  std::int32_t filter, tap, channel;
};

TRIACCEL_HOST_DEVICE constexpr std::int32_t gradient_index(std::int32_t tap_group,
                                                           std::int32_t matrices,
                                                           std::int32_t matrix,
                                                           std::int32_t channels,
                                                           std::int32_t channel) {
  return ((tap_group * matrices + matrix) * channels + channel) * 128;
}

TRIACCEL_HOST_DEVICE constexpr GradientPlace gradient_place(std::int32_t index,
                                                            std::int32_t group_filters,
                                                            std::int32_t tap_groups,
                                                            std::int32_t channels) {
  const std::int32_t number = index % 4, lane = index / 4 % 32, matrices = group_filters / 16;
  std::int32_t rest = index / 128;
  const std::int32_t channel = rest % channels;
  rest /= channels;
  const std::int32_t matrix = rest % matrices;
  rest /= matrices;
  const std::int32_t tap_group = rest % tap_groups, group = rest / tap_groups;
  return {.filter = group * group_filters + matrix * 16 + number / 2 * 8 + lane / 4,
          .tap = tap_group * kGroupTaps + lane % 4 * 2 + number % 2,
          .channel = channel};
}

/// FP32 numbers of scratch that cuda::stem_weight_gradient needs, where tiles can be cut.
constexpr std::int64_t stem_scratch(const StemConvolutionShape& shape) {
  const ImageGradientWork work = image_gradient_work(shape, cut_stem_tiles(shape).value());
  return work.blocks * work.partial;
}

}  // namespace triaccel::kernels
