#include "triaccel/core/predicted_blocks.h"

#include "triaccel/base/divide_up.h"

namespace triaccel {

int predicted_block_bits(int block, const CoefficientBits& bits, int level, int kind) {
  const int count = coefficients_of(block);
  int sum = kind > 0 ? kPredictionBits : 0;
  for (int place = 0; place < count; ++place) {
    const int width = bits[static_cast<std::size_t>(place)];
    sum += held_bits(leveled_bits(width, place, count, level), place, kind);
  }
  return sum;
}

int plain_block_bits(const SavedPlan& plan) {
  return predicted_block_bits(plan.block, coefficient_bits(plan.block, plan.band_eighths), 0, 0);
}

PredictedLayout predicted_layout(const BlockMap& map, int block, const CoefficientBits& bits,
                                 int saved) {
  const std::int64_t positions = frequency_layout(map, block, bits).positions;
  PredictedLayout layout{.unit_blocks = kUnitChunks * blocks_of_chunk(block),
                         .channels = map.channels};
  if (positions == 0 || map.channels == 0) return layout;
  layout.channel_tiles = divide_up(positions, kPredictedTile);
  // Where nothing is predicted, codes of one bit less still fit.
  const int wanted = predicted_block_bits(block, bits, 0, 0) * (256 - saved);
  const int least = predicted_block_bits(block, bits, kCoarsestLevel, 0) * 256;
  const auto tile_of = [&](std::int64_t blocks) {
    PredictedLayout::Tile tile{.blocks = static_cast<int>(blocks)};
    tile.units = divide_up(tile.blocks, layout.unit_blocks);
    tile.kind_words = (tile.blocks + 15) / 16;
    tile.room = (std::max(wanted, least) * tile.blocks + 255) / 256;
    return tile;
  };
  layout.full = tile_of(kPredictedTile);
  layout.last = tile_of(positions - (layout.channel_tiles - 1) * kPredictedTile);
  return layout;
}

}  // namespace triaccel
