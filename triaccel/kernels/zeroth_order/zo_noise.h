#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels {

// Note [Weights on a grid]
// Weights that zeroth-order steps move are multiples of their tensor's grid step 2^exponent, of
// magnitude below 2^24 steps, and so is all that is added to them. Such sums are exact in FP32: a
// perturbation is taken back to the last bit without a copy of the weights, in any order, after any
// number of steps, and every device gets the same bits however its compiler contracts products.

/// Elements whose noise one Philox call draws; tensors start at multiples of it.
inline constexpr std::int64_t kZoGroup = 8;

/// One tensor as the noise sees it; in device memory, TensorEntry::gradient points to it.
struct ZoTensor {
  std::int64_t first = 0;     // number of its first element in the network; a multiple of kZoGroup
  std::int32_t exponent = 0;  // of the grid step
  std::int32_t reserved = 0;  // makes 8 bytes
  std::int64_t inner_rows = 0;     // > 0: numbered as [outer, rows, columns], but in memory
  std::int64_t inner_columns = 0;  // [outer, columns, rows], as channels-last tensors are
};

/// The largest magnitude of a weight and of one change, in grid steps. Their sum stays below 2^24.
inline constexpr std::int32_t kZoLargestChange = 1 << 21;
inline constexpr std::int32_t kZoLargestWeight = (1 << 24) - 2 * kZoLargestChange;

/// What a run's noise depends on in addition to the element; in device memory, so that captured
/// steps follow it.
struct ZoBoard {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  // steps done
  float epsilon = 0;
  std::int32_t reserved = 0;  // makes 8 bytes
};
static_assert(sizeof(ZoBoard) == 24);

/// How far the weights go along a direction of this step: `multiple` * epsilon * z.
struct ZoShift {
  std::int32_t direction = 0;
  std::int32_t multiple = 0;
};

/// One change of all weights:
///   w <- w + multiple * epsilon * z(direction)                       (the shift)
///          - lr / directions * sum_{j, d} momentum^j * g(j, d) * z(j, d)   (unless control->skip)
/// where g(j, d) and z(j, d) belong to direction d of the step j steps back, j < memory, and
/// lr = learning_rates[layer]. z of an element is a function of (seed, step, direction, element):
/// Philox through a table of the normal quantiles (zo_normal_table.inc). Both sums are rounded to
/// the grid; the update is clamped so that the weights stay on it.
struct ZoMove {
  const ZoBoard* board = nullptr;
  ZoShift shift = {};
  // The update; `history` null: only the shift.
  const float* history = nullptr;  // g of step s, direction d at [(s % memory) * directions + d]
  const float* learning_rates = nullptr;
  const StepControl* control = nullptr;  // null: never skipped
  std::int32_t directions = 1;
  std::int32_t memory = 1;  // steps
  float momentum = 0;
};

/// Moves 8 bytes per element, whatever the number of directions.
namespace cpu {
void zo_move(std::span<const TensorEntry> tensors, const ZoMove& move);
}
namespace cuda {
void zo_move(std::span<const TensorEntry> tensors, const ZoMove& move, cudaStream_t stream);
}

}  // namespace triaccel::kernels
