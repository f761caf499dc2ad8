#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "triaccel/kernels/precision/weight_copy.h"

namespace triaccel {

/// The part of a weight [out, in, kh, kw] that its layer multiplies with. Default: all of it.
struct WeightPart {
  // Taps [first, last) of kh and of kw; last 0: all.
  std::array<std::int64_t, 2> first_tap = {0, 0};
  std::array<std::int64_t, 2> last_tap = {0, 0};
  // So many such boxes of taps, row by row, one behind the other along `out`; those of the next row
  // or column lie `step` taps before.
  std::array<std::int64_t, 2> boxes = {1, 1};
  std::array<std::int64_t, 2> step = {0, 0};
  bool operator==(const WeightPart&) const = default;
};

/// Which part of an F32 weight [out, in, kh, kw] or [out, in] (any dense memory order) a 16-bit
/// copy holds.
struct WeightCopySpec {
  at::Tensor weight;
  at::ScalarType type = at::kBFloat16;  // or Half
  WeightPart part = {};                 // ignored for matrices
};

/// 16-bit copies of many weights, refreshed together, rounded to nearest even. The copy of a
/// channels-last weight is channels-last, any other is contiguous.
class WeightCopies {
 public:
  /// Allocates; copies hold garbage until refresh(). The weights must change in place from now on.
  explicit WeightCopies(std::vector<WeightCopySpec> specs);

  /// Only enqueues and allocates nothing: one launch for every 64 boxes of taps.
  void refresh();

  const at::Tensor& copy(std::size_t index) const { return copies_.at(index); }
  /// Frees one. What is left may be read, but not refreshed any more.
  void drop(std::size_t index) { copies_.at(index).reset(); }

 private:
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> copies_;
  std::vector<kernels::WeightCopyEntry> entries_;
};

/// The gradient of a whole weight from that of a part: `part` [out, in, taps] lands at its taps in
/// a new tensor of the weight's shape and memory order and the part's type, with zeros elsewhere.
/// One kernel; only enqueues.
at::Tensor whole_gradient(const at::Tensor& part, const at::Tensor& weight,
                          std::array<std::int64_t, 2> first_tap,
                          std::array<std::int64_t, 2> last_tap);

}  // namespace triaccel
