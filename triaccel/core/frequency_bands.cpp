#include "triaccel/core/frequency_bands.h"

#include <algorithm>
#include <cmath>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// How many neighbours of a row of `count` form the columns of a map; 0: it divides badly.
std::int64_t fold(std::int64_t count) {
  for (const std::int64_t columns : {8, 4, 7})
    if (count % columns == 0) return columns;
  return 0;
}

std::int64_t whole_root(std::int64_t number) {
  const auto root = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(number))));
  return root * root == number ? root : 0;
}

/// `count` tokens from `first` on, in rows of `columns`.
BlockMap token_map(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                   std::int64_t first, std::int64_t count, std::int64_t columns) {
  return {.images = sizes[0],
          .channels = sizes[2],
          .rows = count / columns,
          .columns = columns,
          .image_stride = strides[0],
          .channel_stride = strides[2],
          .row_stride = columns * strides[1],
          .column_stride = strides[1],
          .offset = first * strides[1]};
}

/// The first token of every image, as one map.
BlockMap first_token_map(std::span<const std::int64_t> sizes,
                         std::span<const std::int64_t> strides) {
  const std::int64_t columns = fold(sizes[0]) > 0 ? fold(sizes[0]) : 1;
  return {.images = 1,
          .channels = sizes[2],
          .rows = sizes[0] / columns,
          .columns = columns,
          .image_stride = 0,
          .channel_stride = strides[2],
          .row_stride = columns * strides[0],
          .column_stride = strides[0],
          .offset = 0};
}

/// Coefficients that have the same bits: neighbours in the order they are encoded.
struct EqualBits {
  std::uint8_t band, place, size;
};

/// Looked up, since planners ask often.
struct BlockTable {
  std::array<int, kFrequencyBands> band_sizes = {};
  std::array<EqualBits, kMaxCoefficients> groups = {};
  std::size_t count = 0;  // of groups
};

constexpr BlockTable block_table(int block) {
  BlockTable table = {};
  for (int band = 0; band < kFrequencyBands; ++band)
    table.band_sizes[static_cast<std::size_t>(band)] = band_size(block, band);
  for (int place = 0; place < coefficients_of(block);) {
    const int size = block == 4 || place < 4 ? 1 : std::min(4, coefficients_of(block) - place);
    table.groups[table.count++] = {static_cast<std::uint8_t>(band_at(block, place)),
                                   static_cast<std::uint8_t>(place),
                                   static_cast<std::uint8_t>(size)};
    place += size;
  }
  return table;
}

constexpr BlockTable kTable8 = block_table(8), kTable7 = block_table(7), kTable4 = block_table(4);

std::span<const EqualBits> groups_of(const BlockTable& table) {
  return {table.groups.data(), table.count};
}

void add_bits(const EqualBits& group, int bits, CoefficientBits& all) {
  for (std::size_t i = group.place; i < std::size_t{group.place} + group.size; ++i)
    all[i] = static_cast<std::uint8_t>(all[i] + bits);
}

/// Gives the lowest frequencies that have bits one more each, until so many are given out. Those
/// that are kept can take them: 8 bits for each are a whole number of bytes.
void give_out(const BlockTable& table, int missing, CoefficientBits& bits) {
  while (missing > 0)
    for (const EqualBits& group : groups_of(table)) {
      if (bits[group.place] == 0 || bits[group.place] == 8 || group.size > missing) continue;
      add_bits(group, 1, bits);
      missing -= group.size;
    }
}

}  // namespace

CoefficientBits coefficient_bits(int block,
                                 const std::array<std::uint8_t, kFrequencyBands>& band_eighths) {
  constexpr std::string_view who = "coefficient_bits";
  require(is_frequency_block(block), who, "blocks have 8, 7 or 4 elements per side, not ", block);
  const BlockTable& table = block == 8 ? kTable8 : block == 7 ? kTable7 : kTable4;
  CoefficientBits bits = {};
  int missing = 0, sum = 0;
  for (std::size_t band = 0; band < kFrequencyBands; ++band) {
    const int asked = band_eighths[band], size = table.band_sizes[band];
    require(asked <= 64, who, "a coefficient has at most 64 eighths of a bit, got ", asked,
            " for band ", band);
    const int eighths = band == 0 && asked < 8 ? 8 : asked;
    int longer = (size * (eighths % 8) + 4) / 8;
    sum += size * (eighths / 8) + longer;
    for (const EqualBits& group : groups_of(table)) {
      if (group.band != band) continue;
      const int one_more = group.size <= longer ? 1 : 0;
      longer -= one_more * group.size;
      add_bits(group, eighths / 8 + one_more, bits);
    }
    missing += longer;
  }
  const int whole = 8 / blocks_of_chunk(block);
  give_out(table, missing + (whole - sum % whole) % whole, bits);
  return bits;
}

std::vector<BlockMap> block_maps(std::span<const std::int64_t> sizes,
                                 std::span<const std::int64_t> strides) {
  require(sizes.size() == strides.size(), "block_maps", "there are ", sizes.size(), " sizes and ",
          strides.size(), " strides");
  if (sizes.size() == 4)
    return {{.images = sizes[0],
             .channels = sizes[1],
             .rows = sizes[2],
             .columns = sizes[3],
             .image_stride = strides[0],
             .channel_stride = strides[1],
             .row_stride = strides[2],
             .column_stride = strides[3]}};
  if (sizes.size() != 3 || sizes[1] < 2) return {};
  const std::int64_t tokens = sizes[1];
  if (const std::int64_t side = whole_root(tokens); side > 0)
    return {token_map(sizes, strides, 0, tokens, side)};
  if (const std::int64_t side = whole_root(tokens - 1); side > 1)
    return {token_map(sizes, strides, 1, tokens - 1, side), first_token_map(sizes, strides)};
  if (const std::int64_t columns = fold(tokens); columns > 0)
    return {token_map(sizes, strides, 0, tokens, columns)};
  return {};
}

std::vector<BlockMap> block_maps(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return block_maps(sizes, strides);
}

FrequencyLayout frequency_layout(const BlockMap& map, int block, const CoefficientBits& bits) {
  require(is_frequency_block(block), "frequency_layout",
          "blocks have 8, 7 or 4 elements per side, not ", block);
  FrequencyLayout layout = {};
  const int chunk_blocks = blocks_of_chunk(block);
  for (const std::uint8_t width : bits) layout.chunk_bits += width * chunk_blocks;
  layout.block_rows = divide_up(map.rows, block);
  layout.block_columns = divide_up(map.columns, block);
  layout.positions = map.images * layout.block_rows * layout.block_columns;
  if (layout.positions == 0 || map.channels == 0) return layout;
  const std::int64_t unit_positions = kUnitChunks * chunk_blocks;
  const std::int64_t full_groups = (layout.positions - 1) / unit_positions;
  const std::int64_t left = layout.positions - full_groups * unit_positions;
  layout.units = (full_groups + 1) * map.channels;
  layout.tiles = divide_up(layout.units, kTileUnits);
  layout.full_tiles = divide_up(full_groups * map.channels, kTileUnits);
  layout.last_chunks = static_cast<int>(divide_up(left, chunk_blocks));
  return layout;
}

std::int64_t frequency_bytes(const SavedPlan& plan, std::span<const std::int64_t> sizes) {
  const std::vector<BlockMap> maps = block_maps(sizes);
  require(!maps.empty(), "frequency_bytes", "a tensor of ", sizes.size(),
          " dimensions has no maps; check block_maps() first");
  const CoefficientBits bits = coefficient_bits(plan.block, plan.band_eighths);
  std::int64_t bytes = 0;
  for (const BlockMap& map : maps) bytes += frequency_layout(map, plan.block, bits).bytes();
  return bytes;
}

}  // namespace triaccel
