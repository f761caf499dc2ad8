#include <cstring>

#include "triaccel/kernels/cpu/frequency_codec_block.h"
#include "triaccel/kernels/cpu/predicted_codec_tile.h"

namespace triaccel::kernels::cpu {
namespace {

class BitReader {
 public:
  explicit BitReader(const std::uint8_t* bytes) : bytes_(bytes) {}
  std::uint32_t read(int bits) {
    std::uint32_t value = 0;
    for (int i = 0; i < bits; ++i, ++at_) value |= (bytes_[at_ / 8] >> at_ % 8 & 1u) << i;
    return value;
  }

 private:
  const std::uint8_t* bytes_;
  std::int64_t at_ = 0;
};

template <typename Stored>
void store_block(const PredictedWork& work, const BlockPlace& place, PredictedBlock x,
                 void* values) {
  const float gain = 1.0f / (gain_of(work.coding.block) * gain_of(work.coding.block));
  for (float& value : x) value *= gain;
  transform_block(work.coding.block, false, x.data());
  const BlockMap& map = work.coding.map;
  auto* words = static_cast<typename Stored::Word*>(values) + place.element;
  for (int row = 0; row < place.rows; ++row)
    for (int column = 0; column < place.columns; ++column)
      words[row * map.row_stride + column * map.column_stride] = Stored::word(
          storable<Stored>(x[static_cast<std::size_t>(row * work.coding.block + column)]));
}

template <typename Stored>
void decode_tile(const PredictedWork& work, const std::uint8_t* codes, std::int64_t number,
                 void* values) {
  PredictedTile tile;
  std::uint64_t begin = 0;
  std::memcpy(&begin, codes + number * static_cast<std::int64_t>(sizeof begin), sizeof begin);
  BitReader bits(codes + begin);
  for (int unit = 0; unit < work.units_of(number); ++unit) {
    const std::uint64_t low = bits.read(32), high = bits.read(32);
    tile.ranges[static_cast<std::size_t>(unit)] = ranges_of(high << 32 | low);
  }
  for (int at = 0; at < work.blocks_of(number); ++at) {
    Prediction prediction = {};
    if (bits.read(1) != 0) {
      prediction.shorter = static_cast<int>(bits.read(2));
      prediction.from = static_cast<int>(bits.read(8));
      prediction.gain = static_cast<int>(bits.read(8));
    }
    const auto offsets = work.offsets(number, at);
    for (int place = 0; place < work.coefficients(); ++place) {
      const auto p = static_cast<std::size_t>(place);
      const std::uint32_t code = bits.read(CodeWidth(work.coding.bits[p], place, prediction).held);
      keep_decoded(work, tile, at, prediction, place, code, offsets[p]);
    }
    store_block<Stored>(work, work.place(number, at), tile.decoded[static_cast<std::size_t>(at)],
                        values);
  }
}

}  // namespace

void decode_predicted(const PredictedCoding& coding, const std::uint8_t* codes, void* values) {
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    const PredictedWork work(coding);
    const std::int64_t tiles = work.tiles();
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
    for (std::int64_t number = 0; number < tiles; ++number)
      decode_tile<Stored>(work, codes, number, values);
  });
}

}  // namespace triaccel::kernels::cpu
