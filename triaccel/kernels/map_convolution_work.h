#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/map_convolution.h"

namespace triaccel::kernels {

/// What is read for one position along a direction of the map that is written: tap t of position o
/// meets position o * stride + first + t * step, which may lie outside.
struct ReadAxis {
  std::int32_t read = 1;     // positions of the map that is read
  std::int32_t written = 1;  // and of the other
  std::int32_t taps = 1;
  std::int32_t stride = 1, first = 0, step = 1;
};

constexpr ReadAxis forward_axis(const WindowAxis& axis) {
  return {.read = static_cast<std::int32_t>(axis.input),
          .written = static_cast<std::int32_t>(axis.output),
          .taps = static_cast<std::int32_t>(axis.window),
          .stride = static_cast<std::int32_t>(axis.stride),
          .first = -static_cast<std::int32_t>(axis.padding),
          .step = 1};
}

/// For a stride of 1: windows turned around.
constexpr ReadAxis gradient_axis(const WindowAxis& axis) {
  return {.read = static_cast<std::int32_t>(axis.output),
          .written = static_cast<std::int32_t>(axis.input),
          .taps = static_cast<std::int32_t>(axis.window),
          .stride = 1,
          .first = static_cast<std::int32_t>(axis.padding),
          .step = -1};
}

/// The product that both directions are: every pixel that is written, times its channels there, as
/// a sum over taps and the channels that are read.
struct MapProduct {
  std::int64_t pixels = 0;  // that are written, of all samples
  std::int32_t read_channels = 64, written_channels = 64;
  ReadAxis rows = {}, columns = {};

  constexpr std::int32_t taps() const { return rows.taps * columns.taps; }
};

constexpr MapProduct forward_product(const MapConvolutionShape& shape) {
  return {.pixels = shape.samples * shape.rows.output * shape.columns.output,
          .read_channels = static_cast<std::int32_t>(shape.channels),
          .written_channels = static_cast<std::int32_t>(shape.filters),
          .rows = forward_axis(shape.rows),
          .columns = forward_axis(shape.columns)};
}

constexpr MapProduct gradient_product(const MapConvolutionShape& shape) {
  return {.pixels = shape.samples * shape.rows.input * shape.columns.input,
          .read_channels = static_cast<std::int32_t>(shape.filters),
          .written_channels = static_cast<std::int32_t>(shape.channels),
          .rows = gradient_axis(shape.rows),
          .columns = gradient_axis(shape.columns)};
}

/// Pixels and channels of a block's tile, and of one of its sums.
inline constexpr int kMapTile = 64;

/// How the tiles of a product are shared. A tile's pixels are those of whole samples: a block reads
/// what they see once, 64 channels after the other, and of the weights what its steps need.
struct MapCut {
  std::int32_t samples = 1;  // of a tile
  std::int64_t pixel_tiles = 0;
  std::int32_t channel_tiles = 1;
  std::int32_t steps = 1;   // of a tile's sum: one tap of 64 channels each, all taps of these first
  std::int32_t blocks = 1;  // of a cluster, which share the steps
  std::int32_t planes = 1;  // of 64 channels that a block reads at most
  std::int32_t seen = 64;   // pixels that a tile sees
};

/// The steps of block `rank` of a cluster.
struct StepRange {
  std::int32_t begin, end;
};

TRIACCEL_HOST_DEVICE constexpr StepRange steps_of(const MapCut& cut, std::int32_t rank) {
  return {cut.steps * rank / cut.blocks, cut.steps * (rank + 1) / cut.blocks};
}

constexpr std::int64_t map_tiles(const MapCut& cut) { return cut.pixel_tiles * cut.channel_tiles; }

inline constexpr int kMapStages = 8;  // of 64 x 64 weights, on their way to shared memory at once
inline constexpr std::int64_t kPlaneRow = 128;  // bytes of 64 channels

inline constexpr std::int64_t kMostMapBytes = 200 << 10;  // of a block's shared memory

constexpr std::int64_t map_shared_bytes(const MapCut& cut) {
  return (cut.planes * cut.seen + 1 + kMapStages * kMapTile) * kPlaneRow;
}

/// Empty where a tile is not whole samples or sees more than fits on chip.
constexpr std::optional<MapCut> cut_map_product(const MapProduct& product) {
  constexpr std::int64_t most_blocks = 132;  // one for each multiprocessor of a large chip
  constexpr std::int32_t least_steps = 4, largest_cluster = 8;
  const std::int64_t sample = std::int64_t{product.rows.written} * product.columns.written;
  const std::int64_t seen = std::int64_t{product.rows.read} * product.columns.read;
  if (sample == 0 || kMapTile % sample != 0 || seen * kPlaneRow > kMostMapBytes) return {};
  MapCut cut = {.samples = static_cast<std::int32_t>(kMapTile / sample),
                .pixel_tiles = (product.pixels + kMapTile - 1) / kMapTile,
                .channel_tiles = product.written_channels / kMapTile,
                .steps = product.taps() * (product.read_channels / kMapTile)};
  cut.seen = static_cast<std::int32_t>(cut.samples * seen);
  while (cut.blocks < largest_cluster && 2 * cut.blocks * map_tiles(cut) <= most_blocks &&
         cut.steps >= 2 * cut.blocks * least_steps)
    cut.blocks *= 2;
  for (std::int32_t rank = 0; rank < cut.blocks; ++rank) {
    const StepRange range = steps_of(cut, rank);
    cut.planes =
        std::max(cut.planes, (range.end - 1) / product.taps() - range.begin / product.taps() + 1);
  }
  if (map_shared_bytes(cut) > kMostMapBytes) return {};
  return cut;
}

// A tile in shared memory: rows of eight chunks of 16 bytes. Chunks change places by row, so that
// eight neighbouring rows of one column, which a matrix is loaded from, lie in different banks.
TRIACCEL_HOST_DEVICE constexpr std::int32_t tile_chunk(std::int32_t row, std::int32_t chunk) {
  return row * 8 + (chunk ^ (row & 7));
}

/// Which chunk of a tile a lane gives load_matrices, or load_transposed, as the address of a row of
/// its matrix. `inner`: 16 inner indices of the product, counted in sixteens.
struct TileRow {
  std::int32_t row, chunk;
};

/// Pixels from `first` on as A [16][16]: `row` is the pixel, whose tap's row of channels is given.
TRIACCEL_HOST_DEVICE constexpr TileRow pixel_matrix(std::int32_t lane, std::int32_t first,
                                                    std::int32_t inner) {
  return {first + lane % 16, inner * 2 + lane / 16};
}

/// 16 channels from `first` on as two B [16][8]; forward, channels are rows of the tile.
TRIACCEL_HOST_DEVICE constexpr TileRow channel_matrix(std::int32_t lane, std::int32_t first,
                                                      std::int32_t inner) {
  return {first + lane % 8 + lane / 16 * 8, inner * 2 + lane / 8 % 2};
}

/// The same where inner indices are rows of the tile and channels its columns; to be transposed.
TRIACCEL_HOST_DEVICE constexpr TileRow turned_channel_matrix(std::int32_t lane, std::int32_t first,
                                                             std::int32_t inner) {
  return {inner * 16 + lane % 16, first / 8 + lane / 16};
}

}  // namespace triaccel::kernels
