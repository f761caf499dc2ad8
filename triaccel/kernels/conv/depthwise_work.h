#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/kernels/conv/depthwise.h"

namespace triaccel::kernels {

// How the threads of a device share a depthwise convolution. A thread takes one pack of a pixel's
// channels, a strip of neighbouring columns and a run of rows, down which it slides: each row of
// its input is loaded once for all the rows of output it reaches. Its share of the filters stays in
// registers, which makes packs of 8 bytes for filters of 3 x 3 and of 4 bytes for 5 x 5.

inline constexpr int kStripColumns = 4;  // of the map that is cut into strips

/// Channels a thread takes: all that fit into a pack, or one where they do not divide the map's.
constexpr int channels_per_pack(const DepthwiseShape& shape) {
  const int wide = (shape.filter == 3 ? 2 : 1) * (shape.type == FloatType::F32 ? 1 : 2);
  return shape.channels % wide == 0 ? wide : 1;
}

/// Threads side by side over the packs of one pixel: 64 bytes, of narrow packs less.
constexpr int lanes_of_words(std::size_t word_bytes) { return word_bytes == 8 ? 8 : 16; }

constexpr int pack_lanes(const DepthwiseShape& shape) {
  return lanes_of_words((shape.type == FloatType::F32 ? 4u : 2u) *
                        static_cast<std::size_t>(channels_per_pack(shape)));
}

/// One map as strips, numbered column strips first, then rows, then images.
struct StripCut {
  std::int32_t packs;    // of one pixel
  std::int32_t groups;   // of pack_lanes packs
  std::int32_t columns;  // strips side by side
  std::int32_t rows;     // strips one above the other
  std::int32_t height;   // rows of a strip; the last may have fewer
  std::int64_t strips;   // in all images
};

struct CutOptions {
  std::int64_t threads = 128;        // of a block
  std::int64_t wanted_blocks = 528;  // four for each multiprocessor of a large chip
  std::int64_t least_height = 2;     // a strip reads rows beyond its ends: flat ones read more
};

inline StripCut cut_into_strips(const DepthwiseShape& shape, std::int64_t map_rows,
                                std::int64_t map_columns, CutOptions options) {
  const std::int64_t packs = shape.channels / channels_per_pack(shape);
  const std::int64_t groups = divide_up(packs, pack_lanes(shape));
  const std::int64_t strips_per_block = options.threads / pack_lanes(shape);
  const std::int64_t columns = divide_up(map_columns, kStripColumns);
  std::int64_t height = map_rows;
  const auto strips = [&] { return shape.images * columns * divide_up(map_rows, height); };
  while (groups * divide_up(strips(), strips_per_block) < options.wanted_blocks &&
         height > options.least_height)
    height = divide_up(height, 2);
  return {.packs = static_cast<std::int32_t>(packs),
          .groups = static_cast<std::int32_t>(groups),
          .columns = static_cast<std::int32_t>(columns),
          .rows = static_cast<std::int32_t>(divide_up(map_rows, height)),
          .height = static_cast<std::int32_t>(height),
          .strips = strips()};
}

/// The weight gradient: each block adds up many strips for one group of channels.
struct WeightGradientWork {
  StripCut cut;
  int threads;          // of a block
  std::int64_t blocks;  // for each group; where there is more than one, each leaves partial sums
};

inline WeightGradientWork weight_gradient_work(const DepthwiseShape& shape) {
  constexpr int threads = 256, threads_alone = 512;
  constexpr std::int64_t most_blocks = 528, most_rows_alone = 6;
  const auto cut = [&](std::int64_t wanted_blocks) {
    return cut_into_strips(shape, shape.rows.output, shape.columns.output,
                           {.threads = threads, .wanted_blocks = wanted_blocks, .least_height = 4});
  };
  // Where one block per group is quick enough, a second kernel to add partial sums would cost more.
  const StripCut whole = cut(0);
  const std::int64_t turns_alone = divide_up(whole.strips, threads_alone / pack_lanes(shape));
  if (turns_alone * whole.height <= most_rows_alone)
    return {.cut = whole, .threads = threads_alone, .blocks = 1};
  const StripCut many = cut(most_blocks / 2);
  const std::int64_t turns = divide_up(many.strips, threads / pack_lanes(shape));
  const std::int64_t most_a_group = std::max<std::int64_t>(1, most_blocks / many.groups);
  return {
      .cut = many, .threads = threads, .blocks = divide_up(turns, divide_up(turns, most_a_group))};
}

}  // namespace triaccel::kernels
