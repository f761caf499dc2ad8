#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "triaccel/kernels/cpu/predicted_codec_tile.h"

// Which earlier block of a tile a block is predicted from.
namespace triaccel::kernels::cpu {

/// The signs of sixteen random sums of the lowest frequencies, each over its band's range, so that
/// all count alike; the first coefficient is left out.
std::uint32_t signature(const PredictedWork& work, const PredictedBlock& x,
                        const UnitRanges& ranges);

/// Blocks of a tile by their signatures: the first two of each set stay.
class BlockTable {
 public:
  struct Found {
    std::array<int, 2> blocks;
    int count = 0;
  };
  Found find(std::uint32_t key) const {
    Found found = {};
    for (const Entry& entry : sets_[key % sets_.size()])
      if (entry.block >= 0 && entry.key == key)
        found.blocks[static_cast<std::size_t>(found.count++)] = entry.block;
    return found;
  }
  void insert(std::uint32_t key, int block) {
    for (Entry& entry : sets_[key % sets_.size()])
      if (entry.block < 0) {
        entry = {key, block};
        return;
      }
  }

 private:
  struct Entry {
    std::uint32_t key = 0;
    int block = -1;
  };
  std::array<std::array<Entry, 2>, kPredictedTile / 2> sets_ = {};
};

/// Bits that a prediction saves, those that tell it taken off.
int bits_saved(const PredictedWork& work, const Prediction& prediction);

/// The prediction of block `at` from an earlier one that saves most; none where it saves nothing or
/// codes would not reach the difference.
std::optional<Prediction> prediction_from(const PredictedWork& work, const PredictedTile& tile,
                                          const PredictedBlock& x, int at, int from);

}  // namespace triaccel::kernels::cpu
