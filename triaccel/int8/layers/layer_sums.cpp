#include "triaccel/int8/layers/layer_sums.h"

#include <algorithm>
#include <cstring>

#include "triaccel/int8/layers/patches.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/network.h"
#include "triaccel/int8/shadow.h"

namespace triaccel::int8 {
namespace {

std::uint32_t part_of_target(const Layer& layer, const RowParts& parts, std::int32_t part,
                             Product product, const std::int8_t* rows, const SumTarget& target,
                             std::int32_t* part_sums) {
  const ProductShape shape = {.rows = parts.rows_of(part),
                              .columns = layer.out_channels,
                              .depth = padded_depth(layer.depth()),
                              .c_stride = layer.out_channels};
  const std::int32_t first_unit = part * parts.units_per_part;
  switch (layer.pooling) {
    case Pooling::None: {
      std::int32_t* to =
          target.sums + std::int64_t{first_unit} * parts.rows_per_unit * layer.out_channels;
      checked_product(product, shape, rows, target.panel, to);
      return largest_magnitude(to, std::int64_t{shape.rows} * shape.columns);
    }
    case Pooling::Max2x2: {
      checked_product(product, shape, rows, target.panel, part_sums);
      const std::int32_t count = shape.rows / 4 * shape.columns;
      const std::int64_t first =
          std::int64_t{first_unit} * (parts.rows_per_unit / 4) * shape.columns;
      if (target.choices == nullptr) return pool_four(part_sums, count, target.sums + first);
      return pool_four(part_sums, count, target.sums + first, first, target.choices);
    }
    case Pooling::MaxOverPoints: {
      checked_product(product, shape, rows, target.panel, part_sums);
      return pool_points(part_sums, shape.rows, shape.columns, first_unit, target.sums,
                         reinterpret_cast<std::uint16_t*>(target.choices));
    }
  }
  return 0;
}

}  // namespace

std::int64_t part_sum_count(const Layer& layer) {
  if (layer.pooling == Pooling::None) return 0;
  return std::int64_t{row_parts(layer).rows_of(0)} * layer.out_channels;
}

std::int64_t choice_bytes(const Layer& layer) {
  switch (layer.pooling) {
    case Pooling::None:
      return 0;
    case Pooling::Max2x2:
      return (layer.outputs() + 3) / 4;
    case Pooling::MaxOverPoints:
      return std::int64_t{2} * layer.outputs();
  }
  return 0;
}

void feature_sums(const Layer& layer, Product product, const std::int8_t* placed,
                  SumTarget* targets, std::int32_t target_count, const SumScratch& scratch) {
  const RowParts parts = row_parts(layer);
  for (std::int32_t t = 0; t < target_count; ++t) {
    targets[t].largest = 0;
    if (targets[t].choices != nullptr)
      std::memset(targets[t].choices, 0, static_cast<std::size_t>(choice_bytes(layer)));
  }
  for (std::int32_t part = 0; part < parts.parts(); ++part) {
    const std::int8_t* rows = part_rows(layer, parts, part, placed, scratch.patches);
    for (std::int32_t t = 0; t < target_count; ++t)
      targets[t].largest = std::max(
          targets[t].largest,
          part_of_target(layer, parts, part, product, rows, targets[t], scratch.part_sums));
  }
}

}  // namespace triaccel::int8
