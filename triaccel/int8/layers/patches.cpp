#include "triaccel/int8/layers/patches.h"

#include <algorithm>
#include <cstring>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/layers/sums.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8 {
namespace {

void clear(const InputPlacement& placement, std::int8_t* placed) {
  if (placement.bytes > placement.rows * placement.run)
    std::memset(placed, 0, static_cast<std::size_t>(placement.bytes));
}

std::int64_t row_start(const InputPlacement& placement, std::int32_t row) {
  return placement.start + std::int64_t{row} * placement.stride;
}

/// Approximate size in bytes of gathered patches, or of the sums of a part of a point layer.
constexpr std::int32_t kPatchPartBytes = 16384;
constexpr std::int32_t kPointPartBytes = 65536;

/// Copies one patch: runs of `run` values, `stride` apart. Copies have a fixed size and may
/// overrun, since the following data is written later. kRuns = 0: `runs` runs.
template <std::int32_t kCopies, std::int32_t kRuns>
void gather_patch(const std::int8_t* from, std::int32_t runs, std::int32_t run, std::int32_t stride,
                  std::int8_t* to) {
  const std::int32_t count = kRuns > 0 ? kRuns : runs;
  for (std::int32_t r = 0; r < count; ++r) {
    if constexpr (kCopies == 0) {
      for (std::int32_t at = 0; at < run; at += kCopySlack)
        std::memcpy(to + at, from + at, static_cast<std::size_t>(kCopySlack));
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(kCopies) * 8);
    }
    from += stride;
    to += run;
  }
  std::memset(to, 0, kDepthStep);
}

struct PatchRow {
  std::int32_t y = 0;
  std::int32_t first_x = 0;
  std::int32_t step = 1;
  std::int32_t count = 0;
};

template <std::int32_t kCopies, std::int32_t kRuns>
std::int8_t* gather_row(const Layer& layer, const PatchRow& row, const std::int8_t* placed,
                        std::int8_t* to) {
  const std::int32_t run = layer.kernel * layer.in_channels;
  const std::int32_t stride = (layer.width + 2 * layer.padding) * layer.in_channels;
  const std::int32_t depth = padded_depth(layer.depth());
  const std::int8_t* from =
      placed + std::int64_t{row.y} * stride + std::int64_t{row.first_x} * layer.in_channels;
  for (std::int32_t i = 0; i < row.count; ++i) {
    gather_patch<kCopies, kRuns>(from, layer.kernel, run, stride, to);
    from += row.step * layer.in_channels;
    to += depth;
  }
  return to;
}

template <std::int32_t kCopies, std::int32_t kRuns>
void gather_part(const Layer& layer, const RowParts& parts, std::int32_t part,
                 const std::int8_t* placed, std::int8_t* patches) {
  const std::int32_t width = layer.out_width();
  const std::int32_t first = part * parts.units_per_part;
  const std::int32_t end = first + parts.units_of(part);
  if (layer.pooling != Pooling::Max2x2) {
    for (std::int32_t y = first; y < end; ++y)
      patches = gather_row<kCopies, kRuns>(layer, {.y = y, .count = width}, placed, patches);
    return;
  }
  for (std::int32_t group = 0; group < 4; ++group) {
    for (std::int32_t y = first; y < end; ++y)
      patches = gather_row<kCopies, kRuns>(
          layer, {.y = 2 * y + group / 2, .first_x = group % 2, .step = 2, .count = width / 2},
          placed, patches);
  }
}

/// Splits `units` into parts of similar size, each at most `most` (or one unit).
RowParts even_parts(std::int32_t units, std::int32_t rows_per_unit, std::int32_t most) {
  const std::int32_t parts = most < 1 ? units : divide_up(units, most);
  return {
      .units = units, .rows_per_unit = rows_per_unit, .units_per_part = divide_up(units, parts)};
}

}  // namespace

InputPlacement input_placement(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::Convolution: {
      const std::int32_t stride = (layer.width + 2 * layer.padding) * layer.in_channels;
      return {.rows = layer.height,
              .run = layer.width * layer.in_channels,
              .stride = stride,
              .start = layer.padding * (stride + layer.in_channels),
              .bytes = (layer.height + 2 * layer.padding) * stride + kCopySlack};
    }
    case LayerKind::Points: {
      const std::int32_t stride = padded_depth(layer.in_channels);
      return {.rows = layer.height,
              .run = layer.in_channels,
              .stride = stride,
              .start = 0,
              .bytes = layer.height * stride};
    }
    case LayerKind::Linear: {
      const std::int32_t stride = padded_depth(layer.in_channels);
      return {.rows = 1, .run = layer.in_channels, .stride = stride, .start = 0, .bytes = stride};
    }
  }
  return {};
}

void place_input(const InputPlacement& placement, const std::int8_t* values, std::int8_t* placed) {
  clear(placement, placed);
  for (std::int32_t row = 0; row < placement.rows; ++row)
    std::memcpy(placed + row_start(placement, row), values + std::int64_t{row} * placement.run,
                static_cast<std::size_t>(placement.run));
}

void compact_input(const InputPlacement& placement, const std::int8_t* placed,
                   std::int8_t* values) {
  for (std::int32_t row = 0; row < placement.rows; ++row)
    std::memcpy(values + std::int64_t{row} * placement.run, placed + row_start(placement, row),
                static_cast<std::size_t>(placement.run));
}

void requantise_input(const InputPlacement& placement, const std::int32_t* sums, std::int32_t shift,
                      bool relu, std::int8_t* placed) {
  clear(placement, placed);
  if (placement.run == placement.stride) {
    requantise_sums(sums, std::int64_t{placement.rows} * placement.run, shift, relu,
                    placed + placement.start);
    return;
  }
  for (std::int32_t row = 0; row < placement.rows; ++row)
    requantise_sums(sums + std::int64_t{row} * placement.run, placement.run, shift, relu,
                    placed + row_start(placement, row));
}

RowParts row_parts(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::Convolution: {
      const bool pooled = layer.pooling == Pooling::Max2x2;
      const std::int32_t rows = pooled ? 2 * layer.out_width() : layer.out_width();
      return even_parts(pooled ? layer.out_height() / 2 : layer.out_height(), rows,
                        kPatchPartBytes / (rows * padded_depth(layer.depth())));
    }
    case LayerKind::Points:
      return even_parts(layer.height, 1, std::max(16, kPointPartBytes / (4 * layer.out_channels)));
    case LayerKind::Linear:
      return even_parts(1, 1, 1);
  }
  return {};
}

std::int64_t patch_bytes(const Layer& layer) {
  if (layer.kind != LayerKind::Convolution) return 0;
  return std::int64_t{row_parts(layer).rows_of(0)} * padded_depth(layer.depth()) + kCopySlack;
}

const std::int8_t* part_rows(const Layer& layer, const RowParts& parts, std::int32_t part,
                             const std::int8_t* placed, std::int8_t* patches) {
  if (layer.kind != LayerKind::Convolution)
    return placed + std::int64_t{part} * parts.units_per_part * padded_depth(layer.in_channels);
  // Specializations for the 5 x 5 kernels of LeNet-5.
  const std::int32_t run = layer.kernel * layer.in_channels;
  if (layer.kernel == 5 && run <= 8)
    gather_part<1, 5>(layer, parts, part, placed, patches);
  else if (layer.kernel == 5 && run > 16 && run <= 32)
    gather_part<4, 5>(layer, parts, part, placed, patches);
  else
    gather_part<0, 0>(layer, parts, part, placed, patches);
  return patches;
}

}  // namespace triaccel::int8
