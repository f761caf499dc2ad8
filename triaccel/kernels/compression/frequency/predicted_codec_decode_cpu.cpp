#include <cstring>

#include "triaccel/kernels/compression/frequency/frequency_codec_block.h"
#include "triaccel/kernels/compression/frequency/predicted_codec_tile.h"

namespace triaccel::kernels::cpu {
namespace {

template <typename Stored>
void store_block(const PredictedWork& work, const BlockPlace& place, const float* column,
                 void* values) {
  const int block = work.coding.block;
  const float gain = 1.0f / (gain_of(block) * gain_of(block));
  float x[kMaxCoefficients];
  for (int at = 0; at < work.tables.coefficients; ++at)
    x[work.number[static_cast<std::size_t>(at)]] = column[at * kPredictedTile] * gain;
  transform_block(block, false, x);
  const BlockMap& map = work.coding.map;
  auto* words = static_cast<typename Stored::Word*>(values) + place.element;
  for (int row = 0; row < place.rows; ++row)
    for (int c = 0; c < place.columns; ++c)
      words[row * map.row_stride + c * map.column_stride] =
          Stored::word(storable<Stored>(x[row * block + c]));
}

template <typename Stored>
void decode_tile(const PredictedWork& work, const std::uint8_t* codes, std::int64_t number,
                 void* values) {
  const PredictedLayout::Tile& sizes = work.layout.tile(number);
  const TileParts<const std::uint8_t> parts(work, number, codes);
  PredictedTile tile;
  for (int unit = 0; unit < sizes.units; ++unit) {
    std::uint64_t header = 0;
    std::memcpy(&header, parts.headers + unit * kUnitHeaderBytes, sizeof header);
    tile.scales[static_cast<std::size_t>(unit)] = unit_scale(header);
  }
  std::vector<std::uint32_t> words(static_cast<std::size_t>(sizes.words()));
  std::memcpy(words.data(), parts.words, words.size() * sizeof(std::uint32_t));
  const int level = static_cast<int>(words[0]) + kFinestLevel;
  const std::uint32_t *kinds = words.data() + 1, *bits = kinds + sizes.kind_words;
  // Blocks that are not predicted come first: the others are predicted from them.
  for (const bool predicted : {false, true})
    for (int at = 0, begin = 0; at < sizes.blocks; ++at) {
      CodedBlock block{
          .prediction = {.kind = kind_at(kinds, at)}, .level = level, .call = call_of(number, at)};
      BitReader reader(bits, begin);
      begin += work.tables.block_bits[level - kFinestLevel][block.prediction.kind];
      if ((block.prediction.kind > 0) != predicted) continue;
      read_prediction(reader, block.prediction);
      float* column = tile.column(at);
      read_block(work.tables, work.draws, work.high, block, tile.scale(work, at), reader, column,
                 tile.column(block.prediction.from));
      store_block<Stored>(work, work.place(number, at), column, values);
    }
}

}  // namespace

void decode_predicted(const PredictedCoding& coding, const std::uint8_t* codes, void* values) {
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    const PredictedWork work(coding);
    const std::int64_t tiles = work.layout.tiles();
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
    for (std::int64_t number = 0; number < tiles; ++number)
      decode_tile<Stored>(work, codes, number, values);
  });
}

}  // namespace triaccel::kernels::cpu
