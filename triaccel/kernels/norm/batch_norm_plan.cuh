#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "triaccel/kernels/common/overlapped_launch.cuh"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/norm/batch_norm.h"

namespace triaccel::kernels::cuda {

inline constexpr int kNormSumThreads = 256;
inline constexpr int kMaxGroupChannels = 128;

/// How a map is cut for two kernels. Grids are (row blocks, channel groups): a block takes every
/// row_blocks-th turn of rows of one group. A pack is what a thread reads at once.
struct NormPlan {
  int pack = 1;    // channels of a pack: 16 bytes, or 1 where row or address do not allow it
  int packs = 1;   // of a group, side by side in memory
  int groups = 1;  // that together cover the channels
  int threads = kNormSumThreads;
  int row_blocks = 1;  // of the kernel that sums
  int cluster = 1;     // blocks that add their sums on chip; divides row_blocks
  std::int64_t rows = 0;
  int multiprocessors = 1;
  bool is_long = false;  // as LaunchShape::overlaps

  /// Of the kernel that sums.
  LaunchShape sum_shape() const {
    return {.grid = {unsigned(row_blocks), unsigned(groups)},
            .threads = unsigned(threads),
            .cluster = unsigned(cluster),
            .overlaps = !is_long};
  }
  int parts() const { return row_blocks / cluster; }  // sums of a channel that reach the scratch
  /// Of an elementwise kernel, `resident` of whose blocks fit a multiprocessor.
  LaunchShape elementwise_shape(int resident) const;
};

/// The plan for the current device. `aligned`: all maps start at multiples of 16 bytes.
NormPlan plan_norm(const NormMap& map, bool aligned);
/// The same where nothing is summed.
NormPlan plan_elementwise_norm(const NormMap& map, bool aligned);

inline constexpr int kResidentThreads = 512;  // at most
inline constexpr int kMaxCluster = 8;         // what every chip with clusters takes
inline constexpr int kFewTurns = 2;           // packs of a thread: one of these two at most
inline constexpr int kMaxTurns = 6;

/// How a map is cut for one kernel, which keeps it in registers: a cluster of `blocks` takes one
/// pack of channels, each of its blocks block_rows rows.
struct ResidentNormPlan {
  int groups = 1;  // packs of a row
  int blocks = 1;
  int threads = kResidentThreads;
  int block_rows = 0;
  int turns = 1;  // packs of a thread

  LaunchShape shape() const {
    return {.grid = {unsigned(blocks), unsigned(groups)},
            .threads = unsigned(threads),
            .cluster = unsigned(blocks)};
  }
};

/// None: the map does not fit, or two kernels on the whole chip are faster.
std::optional<ResidentNormPlan> plan_resident_norm(const NormMap& map, bool aligned,
                                                   std::int64_t most_bytes);

/// body(stored type, pack size as a constant).
template <typename Body>
void with_norm_type(FloatType type, int pack, Body body) {
  with_stored_type(type, [&]<typename Stored>(Stored stored) {
    if (pack == 1)
      body(stored, std::integral_constant<int, 1>{});
    else
      body(stored, std::integral_constant<int, 16 / sizeof(typename Stored::Word)>{});
  });
}

}  // namespace triaccel::kernels::cuda
