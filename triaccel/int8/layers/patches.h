#pragma once

#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8 {

/// Copies may read or write up to this many bytes beyond the end.
inline constexpr std::int32_t kCopySlack = 16;

/// Layout of a layer's input of one sample in working memory: `rows` runs of `run` values, `stride`
/// apart, with zeros between: the border of an image, or the padding of rows.
struct InputPlacement {
  std::int32_t rows = 0;
  std::int32_t run = 0;
  std::int32_t stride = 0;
  std::int32_t start = 0;
  std::int32_t bytes = 0;  // in total
};

InputPlacement input_placement(const Layer& layer);

/// Copies contiguous values to this layout.
void place_input(const InputPlacement& placement, const std::int8_t* values, std::int8_t* placed);

/// Copies back to contiguous values.
void compact_input(const InputPlacement& placement, const std::int8_t* placed, std::int8_t* values);

/// Converts the sums of the previous layer to mantissas with `shift`. Clears the rest of `placed`.
void requantise_input(const InputPlacement& placement, const std::int32_t* sums, std::int32_t shift,
                      bool relu, std::int8_t* placed);

/// Splits the rows of a feature layer's product into parts that fit the cache. A part of a pooled
/// convolution holds whole rows of the pooled image in four groups (top left, top right, bottom
/// left, bottom right of each 2x2 window), so that pooling is a maximum of four arrays.
struct RowParts {
  std::int32_t units = 0;          // rows of the (pooled) image, or points
  std::int32_t rows_per_unit = 0;  // of the product
  std::int32_t units_per_part = 0;

  std::int32_t parts() const { return divide_up(units, units_per_part); }
  std::int32_t units_of(std::int32_t part) const {
    const std::int32_t left = units - part * units_per_part;
    return left < units_per_part ? left : units_per_part;
  }
  std::int32_t rows_of(std::int32_t part) const { return units_of(part) * rows_per_unit; }
};

RowParts row_parts(const Layer& layer);

/// Bytes needed by part_rows to gather a part; 0 if gathering is not needed.
std::int64_t patch_bytes(const Layer& layer);

/// The rows of a part: gathered into `patches` for a convolution, in place for point layers.
/// `placed`: the input in its layout.
const std::int8_t* part_rows(const Layer& layer, const RowParts& parts, std::int32_t part,
                             const std::int8_t* placed, std::int8_t* patches);

}  // namespace triaccel::int8
