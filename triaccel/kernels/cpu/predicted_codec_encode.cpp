#include <algorithm>
#include <cmath>
#include <cstring>

#include "triaccel/kernels/cpu/frequency_codec_block.h"
#include "triaccel/kernels/cpu/predicted_codec_search.h"

namespace triaccel::kernels::cpu {
namespace {

class BitWriter {
 public:
  void write(std::uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i, ++filled_) {
      if (filled_ % 8 == 0) bytes_.push_back(0);
      bytes_.back() |= static_cast<std::uint8_t>((value >> i & 1u) << filled_ % 8);
    }
  }
  std::vector<std::uint8_t>&& take() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
  std::int64_t filled_ = 0;
};

template <typename Stored>
PredictedBlock coefficients_at(const PredictedWork& work, const void* values,
                               const BlockPlace& place) {
  const BlockMap& map = work.coding.map;
  const auto* words = static_cast<const typename Stored::Word*>(values) + place.element;
  PredictedBlock x = {};
  for (int row = 0, i = 0; row < work.coding.block; ++row)
    for (int column = 0; column < work.coding.block; ++column, ++i)
      x[static_cast<std::size_t>(i)] =
          Stored::value(words[std::min(row, place.rows - 1) * map.row_stride +
                              std::min(column, place.columns - 1) * map.column_stride]);
  transform_block(work.coding.block, true, x.data());
  return x;
}

/// The ranges of blocks [begin, end) of a tile, as header_of takes them.
UnitRanges ranges_from(const PredictedWork& work, const std::vector<PredictedBlock>& blocks,
                       int begin, int end) {
  float extremes[kExtremes];
  std::fill(std::begin(extremes), std::end(extremes), -INFINITY);
  for (int at = begin; at < end; ++at)
    for (int place = 0; place < work.coefficients(); ++place) {
      const auto p = static_cast<std::size_t>(place);
      const float x =
          blocks[static_cast<std::size_t>(at)][static_cast<std::size_t>(work.number[p])];
      if (work.band[p] == 0) {
        extremes[0] = larger(extremes[0], x);
        extremes[1] = larger(extremes[1], -x);
      } else {
        float& extreme = extremes[work.band[p] + 1];
        extreme = larger(extreme, magnitude(x));
      }
    }
  const MiddleRange first = middle_range(extremes[0], extremes[1]);
  std::uint32_t codes[kFrequencyBands] = {range_code(first.range)};
  for (int band = 1; band < kFrequencyBands; ++band) codes[band] = range_code(extremes[band + 1]);
  return unit_ranges(codes, first.middle);
}

void write_block(const PredictedWork& work, PredictedTile& tile, std::int64_t number,
                 const PredictedBlock& x, int at, const Prediction& prediction, BitWriter& bits) {
  const UnitRanges& ranges = tile.ranges_of_block(work, at);
  bits.write(prediction.shorter > 0 ? 1 : 0, 1);
  if (prediction.shorter > 0) {
    bits.write(static_cast<std::uint32_t>(prediction.shorter), 2);
    bits.write(static_cast<std::uint32_t>(prediction.from), 8);
    bits.write(static_cast<std::uint32_t>(prediction.gain), 8);
  }
  const auto offsets = work.offsets(number, at);
  for (int place = 0; place < work.coefficients(); ++place) {
    const auto p = static_cast<std::size_t>(place);
    const CodeWidth width(work.coding.bits[p], place, prediction);
    float inside = x[static_cast<std::size_t>(work.number[p])] -
                   tile.predicted(prediction, place, work.number[p]);
    if (place == 0) inside -= middle_of(ranges);
    const bool finite = is_finite(ranges);
    const float inverse = finite ? inverse_width(band_range(ranges, work.band[p])) : 0.0f;
    const std::uint32_t code =
        code_bits(finite ? inside : 0.0f, inverse * width.top(), offsets[p]) - kCodeBaseBits +
        (1u << width.held) / 2;
    bits.write(code, width.held);
    keep_decoded(work, tile, at, prediction, place, code & ((1u << width.held) - 1), offsets[p]);
  }
}

template <typename Stored>
std::vector<std::uint8_t> encode_tile(const PredictedWork& work, const void* values,
                                      std::int64_t number, PredictionCounts& counts,
                                      std::int32_t& not_finite) {
  PredictedTile tile;
  BitWriter bits;
  BlockTable table;
  std::vector<PredictedBlock> blocks;
  const int count = work.blocks_of(number);
  for (int at = 0; at < count; ++at)
    blocks.push_back(coefficients_at<Stored>(work, values, work.place(number, at)));
  for (int unit = 0; unit < work.units_of(number); ++unit) {
    const int begin = unit * work.unit_blocks;
    UnitRanges& ranges = tile.ranges[static_cast<std::size_t>(unit)];
    ranges = ranges_from(work, blocks, begin, std::min(count, begin + work.unit_blocks));
    const std::uint64_t header = header_of(ranges);
    bits.write(static_cast<std::uint32_t>(header), 32);
    bits.write(static_cast<std::uint32_t>(header >> 32), 32);
    ranges = ranges_of(header);
    not_finite += is_finite(ranges) ? 0 : 1;
  }
  std::int64_t saved = 0;
  for (int at = 0; at < count; ++at) {
    const PredictedBlock& x = blocks[static_cast<std::size_t>(at)];
    const UnitRanges& ranges = tile.ranges_of_block(work, at);
    Prediction best = {};
    if (is_finite(ranges)) {
      const std::uint32_t key = signature(work, x, ranges);
      const BlockTable::Found found = table.find(key);
      counts.candidates += found.count > 0 ? 1 : 0;
      for (int i = 0; i < found.count; ++i) {
        const auto other =
            prediction_from(work, tile, x, at, found.blocks[static_cast<std::size_t>(i)]);
        if (other && other->shorter > best.shorter) best = *other;
      }
      table.insert(key, at);
    }
    if (best.shorter > 0) {
      ++counts.predicted;
      saved += bits_saved(work, best);
    }
    write_block(work, tile, number, x, at, best, bits);
  }
  std::vector<std::uint8_t> bytes = bits.take();
  counts.blocks += count;
  counts.bytes += static_cast<std::int64_t>(bytes.size());
  counts.plain_bytes += static_cast<std::int64_t>(bytes.size()) + (saved - count) / 8;
  return bytes;
}

template <typename Stored>
std::vector<std::uint8_t> encode(const PredictedCoding& coding, const void* values,
                                 PredictionCounts& counts, std::int32_t* not_finite) {
  const PredictedWork work(coding);
  const std::int64_t tiles = work.tiles();
  std::vector<std::vector<std::uint8_t>> coded(static_cast<std::size_t>(tiles));
  std::vector<PredictionCounts> found(coded.size());
  std::vector<std::int32_t> lost(coded.size());
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
  for (std::int64_t number = 0; number < tiles; ++number) {
    const auto at = static_cast<std::size_t>(number);
    coded[at] = encode_tile<Stored>(work, values, number, found[at], lost[at]);
  }
  std::vector<std::uint8_t> all(coded.size() * sizeof(std::uint64_t));
  for (std::size_t at = 0; at < coded.size(); ++at) {
    const std::uint64_t begin = all.size();
    std::memcpy(all.data() + at * sizeof begin, &begin, sizeof begin);
    all.insert(all.end(), coded[at].begin(), coded[at].end());
    counts.blocks += found[at].blocks;
    counts.candidates += found[at].candidates;
    counts.predicted += found[at].predicted;
    counts.plain_bytes += found[at].plain_bytes;
    counts.bytes += found[at].bytes;
    if (not_finite != nullptr) *not_finite += lost[at];
  }
  return all;
}

}  // namespace

std::vector<std::uint8_t> encode_predicted(const PredictedCoding& coding, const void* values,
                                           PredictionCounts& counts, std::int32_t* not_finite) {
  std::vector<std::uint8_t> codes;
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    codes = encode<Stored>(coding, values, counts, not_finite);
  });
  return codes;
}

}  // namespace triaccel::kernels::cpu
