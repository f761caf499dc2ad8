#pragma once

#include <cstdint>

#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/common/tensor_core.cuh"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/conv/stem_convolution_work.h"

// What both directions of a convolution over images share: tiles of pixels in shared memory.
// stem_convolution_work.h says how these and the matrices are laid out.
namespace triaccel::kernels::cuda {

struct ImageAxis {
  std::int32_t input, output, window, stride, padding;
  std::int32_t seen_end;  // of the input's positions

  explicit ImageAxis(const WindowAxis& axis)
      : input(static_cast<std::int32_t>(axis.input)),
        output(static_cast<std::int32_t>(axis.output)),
        window(static_cast<std::int32_t>(axis.window)),
        stride(static_cast<std::int32_t>(axis.stride)),
        padding(static_cast<std::int32_t>(axis.padding)),
        seen_end(static_cast<std::int32_t>(kernels::seen_end(axis))) {}
};

struct ImageWork {
  StemTiles tiles;
  ImageAxis rows, columns;
  FastDivide seen_columns, tile_columns, column_tiles, row_tiles;
  std::int32_t taps, channels, filters;
  bool channels_last;
  FloatType image_type;

  ImageWork(const StemConvolutionShape& shape, const StemTiles& cut)
      : tiles(cut),
        rows(shape.rows),
        columns(shape.columns),
        seen_columns(cut.seen_columns),
        tile_columns(cut.columns),
        column_tiles(cut.column_tiles),
        row_tiles(cut.row_tiles),
        taps(static_cast<std::int32_t>(image_taps(shape))),
        channels(static_cast<std::int32_t>(shape.channels)),
        filters(static_cast<std::int32_t>(shape.filters)),
        channels_last(shape.channels_last),
        image_type(shape.image_type) {}
};

/// Words of eight bytes that a tile takes; even, so that what follows it lies at 16 bytes.
TRIACCEL_HOST_DEVICE inline std::int32_t tile_words(const StemTiles& tiles) {
  return (tiles.seen_rows * tiles.pitch + 1) / 2 * 2;
}

/// The tiles of `shape`; call it where cut_stem_tiles gave some.
inline StemTiles tiles_of(std::string_view who, const StemConvolutionShape& shape) {
  const std::optional<StemTiles> tiles = cut_stem_tiles(shape);
  ensure(tiles.has_value(), text(who, ": no tiles for this shape; check cut_stem_tiles() first"));
  return *tiles;
}

struct TilePlace {
  std::int64_t image;
  std::int32_t row, column;  // its first window
};

__device__ inline TilePlace locate_tile(const ImageWork& work, std::int32_t tile) {
  const FastDivide::Result line = work.column_tiles(tile), image = work.row_tiles(line.quotient);
  return {std::int64_t{image.quotient}, image.remainder * work.tiles.rows,
          line.remainder * work.tiles.columns};
}

/// The bits of some of a tile's pixels on their way from memory, each channel as it is stored
/// there: of pixels first, first + step, ...; zeros outside the image, beyond its channels and in
/// the border that no window sees: windows beyond the last, which a tile may have, reach it, and
/// their gradient of zero does not silence what is not finite. All threads of a block call it
/// together, `first` being their number plus a multiple of `step`.
template <int kPixels>
struct PixelBatch {
  std::uint32_t bits[kPixels][4];

  __device__ void load(const ImageWork& work, const void* images, const TilePlace& place,
                       std::int32_t first, std::int32_t step) {
    const auto of_words = [&]<typename Word>(Word) {
      const auto* words = static_cast<const Word*>(images);
      if (work.channels_last)
        load_words<true>(work, words, place, first, step);
      else
        load_words<false>(work, words, place, first, step);
    };
    if (work.image_type == FloatType::F32)
      of_words(std::uint32_t{});
    else
      of_words(std::uint16_t{});
  }

  /// Rounded to `Stored`, to their places in shared memory.
  template <typename Stored>
  __device__ void store(Stored, const ImageWork& work, uint2* tile, std::int32_t first,
                        std::int32_t step) const {
    const std::int32_t count = work.tiles.seen_rows * work.tiles.seen_columns;
    with_stored_type(work.image_type, [&]<typename Image>(Image) {
      const auto value = [](std::uint32_t word) {
        if constexpr (sizeof(typename Image::Word) == 4)
          return float_from_bits(word);
        else
          return Image::value(static_cast<std::uint16_t>(word));
      };
#pragma unroll
      for (int k = 0; k < kPixels; ++k) {
        if (first + k * step >= count) break;
        const std::uint32_t(&pixel)[4] = bits[k];
        const FastDivide::Result row = work.seen_columns(first + k * step);
        tile[row.quotient * work.tiles.pitch + row.remainder] =
            make_uint2(rounded_pair(Stored{}, value(pixel[0]), value(pixel[1])),
                       rounded_pair(Stored{}, value(pixel[2]), value(pixel[3])));
      }
    });
  }

 private:
  template <bool channels_last, typename Word>
  __device__ void load_words(const ImageWork& work, const Word* images, const TilePlace& place,
                             std::int32_t first, std::int32_t step) {
    const std::int32_t count = work.tiles.seen_rows * work.tiles.seen_columns;
    const std::int32_t pixels = work.rows.input * work.columns.input;
    const std::int32_t pixel_step = channels_last ? work.channels : 1;
    const std::int32_t channel_step = channels_last ? 1 : pixels;
    const std::int32_t line = work.columns.input * pixel_step;
    const std::int32_t top = place.row * work.rows.stride - work.rows.padding;
    const std::int32_t left = place.column * work.columns.stride - work.columns.padding;
    const std::int64_t corner = place.image * pixels * work.channels + std::int64_t{top} * line +
                                std::int64_t{left} * pixel_step;
#pragma unroll
    for (int k = 0; k < kPixels; ++k) {
      if (first / step * step + k * step >= count) break;  // for all threads
      const FastDivide::Result row = work.seen_columns(first + k * step);
      // Rows beyond the tile's last may be read, and are not stored.
      const bool seen = static_cast<std::uint32_t>(top + row.quotient) <
                            static_cast<std::uint32_t>(work.rows.seen_end) &&
                        static_cast<std::uint32_t>(left + row.remainder) <
                            static_cast<std::uint32_t>(work.columns.seen_end);
      const std::int64_t offset =
          corner + std::int64_t{row.quotient} * line + row.remainder * pixel_step;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        bits[k][c] = 0;
        if (c < work.channels && seen) bits[k][c] = images[offset + c * channel_step];
      }
    }
  }
};

}  // namespace triaccel::kernels::cuda
