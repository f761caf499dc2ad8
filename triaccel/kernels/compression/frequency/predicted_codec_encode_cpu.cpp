#include <algorithm>
#include <cmath>
#include <cstring>

#include "triaccel/kernels/compression/frequency/frequency_codec_block.h"
#include "triaccel/kernels/compression/frequency/predicted_codec_tile.h"

namespace triaccel::kernels::cpu {
namespace {

template <typename Stored>
void load_block(const PredictedWork& work, const void* values, const BlockPlace& place,
                float* column) {
  const BlockMap& map = work.coding.map;
  const auto* words = static_cast<const typename Stored::Word*>(values) + place.element;
  float x[kMaxCoefficients];
  for (int row = 0, i = 0; row < work.coding.block; ++row)
    for (int c = 0; c < work.coding.block; ++c, ++i)
      x[i] = Stored::value(words[std::min(row, place.rows - 1) * map.row_stride +
                                 std::min(c, place.columns - 1) * map.column_stride]);
  transform_block(work.coding.block, true, x);
  for (int at = 0; at < work.tables.coefficients; ++at)
    column[at * kPredictedTile] = x[work.number[static_cast<std::size_t>(at)]];
}

/// The header of blocks [begin, end) of a tile.
std::uint64_t header_from(const PredictedWork& work, PredictedTile& tile, int begin, int end) {
  float extremes[kExtremes];
  std::fill(std::begin(extremes), std::end(extremes), -INFINITY);
  for (int at = begin; at < end; ++at)
    for (int place = 0; place < work.tables.coefficients; ++place)
      add_extreme(work.tables.band[place], tile.column(at)[place * kPredictedTile], extremes);
  return unit_header(extremes);
}

/// How the blocks of a tile are predicted, and the level at which they then fit.
struct TileChoice {
  std::vector<Prediction> predictions;
  int level = 0;
};

TileChoice choose(const PredictedWork& work, PredictedTile& tile,
                  const PredictedLayout::Tile& sizes, PredictionCounts& counts) {
  TileChoice choice{.predictions = std::vector<Prediction>(static_cast<std::size_t>(sizes.blocks))};
  std::vector<std::uint32_t> keys;
  for (int at = 0; at < sizes.blocks; ++at) {
    const UnitScale& scale = tile.scale(work, at);
    keys.push_back(scale.finite != 0 ? signature(work.tables, tile.column(at), scale)
                                     : no_signature(at));
    const auto first = std::ranges::find(keys, keys.back()) - keys.begin();
    if (first == at) continue;
    ++counts.candidates;
    Prediction& prediction = choice.predictions[static_cast<std::size_t>(at)];
    prediction.from = static_cast<std::int32_t>(first);
    prediction.gain = best_gain(work.tables, tile.column(at), tile.column(prediction.from), scale);
  }
  for (const int range : {kPlannedOrFiner, kCoarser}) {
    std::int32_t blocks[kPredictedKinds] = {};
    for (int at = 0; at < sizes.blocks; ++at) {
      Prediction& prediction = choice.predictions[static_cast<std::size_t>(at)];
      prediction.kind =
          prediction.gain == 0
              ? 0
              : best_kind(work.tables, range, tile.column(at), tile.column(prediction.from),
                          tile.scale(work, at), tile.scale(work, prediction.from), prediction.gain);
      ++blocks[prediction.kind];
    }
    if (range == kPlannedOrFiner) {
      counts.predicted += sizes.blocks - blocks[0];
      counts.saved_bits += bits_saved(work.tables, blocks);
    }
    choice.level = fitting_level(work.tables, range, blocks, sizes.room);
    if (choice.level <= last_level(range)) break;
  }
  return choice;
}

template <typename Stored>
void encode_tile(const PredictedWork& work, const void* values, std::int64_t number,
                 std::uint8_t* codes, PredictionCounts& counts, std::int32_t& not_finite) {
  const PredictedLayout::Tile& sizes = work.layout.tile(number);
  const TileParts<std::uint8_t> parts(work, number, codes);
  PredictedTile tile;
  for (int at = 0; at < sizes.blocks; ++at)
    load_block<Stored>(work, values, work.place(number, at), tile.column(at));
  for (int unit = 0; unit < sizes.units; ++unit) {
    const int begin = unit * work.layout.unit_blocks;
    const std::uint64_t header =
        header_from(work, tile, begin, std::min(sizes.blocks, begin + work.layout.unit_blocks));
    std::memcpy(parts.headers + unit * kUnitHeaderBytes, &header, sizeof header);
    UnitScale& scale = tile.scales[static_cast<std::size_t>(unit)];
    scale = unit_scale(header);
    not_finite += scale.finite != 0 ? 0 : 1;
  }
  counts.blocks += sizes.blocks;
  const TileChoice choice = choose(work, tile, sizes, counts);

  std::vector<std::uint32_t> words(static_cast<std::size_t>(sizes.words()));
  words[0] = static_cast<std::uint32_t>(choice.level - kFinestLevel);
  std::uint32_t *kinds = words.data() + 1, *bits = kinds + sizes.kind_words;
  // Blocks that are not predicted come first: the others need what they decode to.
  for (const bool predicted : {false, true})
    for (int at = 0, begin = 0; at < sizes.blocks; ++at) {
      const CodedBlock block{.prediction = choice.predictions[static_cast<std::size_t>(at)],
                             .level = choice.level,
                             .call = call_of(number, at)};
      const int kind = block.prediction.kind;
      BitWriter writer(begin, [&](int word, std::uint32_t joined) { bits[word] |= joined; });
      begin += work.tables.block_bits[choice.level - kFinestLevel][kind];
      if ((kind > 0) != predicted) continue;
      kinds[at / 16] |= static_cast<std::uint32_t>(kind) << at % 16 * 2;
      write_block(work.tables, work.draws, work.high, block, tile.scale(work, at), tile.column(at),
                  tile.column(block.prediction.from), writer);
    }
  std::memcpy(parts.words, words.data(), words.size() * sizeof(std::uint32_t));
}

}  // namespace

void encode_predicted(const PredictedCoding& coding, const void* values, std::uint8_t* codes,
                      PredictionCounts* counts, std::int32_t* not_finite) {
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    const PredictedWork work(coding);
    const std::int64_t tiles = work.layout.tiles();
    std::vector<PredictionCounts> found(static_cast<std::size_t>(tiles));
    std::vector<std::int32_t> lost(found.size());
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
    for (std::int64_t number = 0; number < tiles; ++number) {
      const auto at = static_cast<std::size_t>(number);
      encode_tile<Stored>(work, values, number, codes, found[at], lost[at]);
    }
    for (std::size_t at = 0; at < found.size(); ++at) {
      if (counts != nullptr) {
        counts->blocks += found[at].blocks;
        counts->candidates += found[at].candidates;
        counts->predicted += found[at].predicted;
        counts->saved_bits += found[at].saved_bits;
      }
      if (not_finite != nullptr) *not_finite += lost[at];
    }
  });
}

}  // namespace triaccel::kernels::cpu
