#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace triaccel {

/// The result of a segment from its inputs.
using SegmentForward = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Computes the segments of a network.
class SegmentRunner {
 public:
  virtual ~SegmentRunner() = default;
  virtual at::Tensor run(const std::vector<at::Tensor>& inputs, const SegmentForward& forward) = 0;
};

/// Until the scope ends, this thread's segments are computed by `runner`.
class [[nodiscard]] SegmentScope {
 public:
  explicit SegmentScope(SegmentRunner& runner) : previous_(std::exchange(active_, &runner)) {}
  ~SegmentScope() { active_ = previous_; }
  SegmentScope(const SegmentScope&) = delete;
  SegmentScope& operator=(const SegmentScope&) = delete;

  static SegmentRunner* active() { return active_; }  // null: none

 private:
  inline static thread_local SegmentRunner* active_ = nullptr;
  SegmentRunner* previous_;
};

/// Computes `forward(inputs)` as a segment: a part of a network, such as a residual block, whose
/// activations may be recomputed from its inputs in backward instead of saved. Without a
/// SegmentScope it just calls `forward`, which
/// - reads no tensors but `inputs`, parameters and buffers, and writes to none of its inputs,
/// - is valid until backward has run, when it may be called a second time,
/// - computes the same each time; on a GPU its activations are saved where it draws random numbers.
inline at::Tensor run_segment(const std::vector<at::Tensor>& inputs,
                              const SegmentForward& forward) {
  SegmentRunner* const runner = SegmentScope::active();
  return runner != nullptr ? runner->run(inputs, forward) : forward(inputs);
}

/// The same with one input.
template <typename Forward>
at::Tensor run_segment(const at::Tensor& input, Forward forward) {
  return run_segment(std::vector<at::Tensor>{input},
                     [forward = std::move(forward)](const std::vector<at::Tensor>& inputs) {
                       return forward(inputs[0]);
                     });
}

}  // namespace triaccel
