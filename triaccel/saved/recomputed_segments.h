#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/ops/tensors/segment.h"
#include "triaccel/saved/saved_tensor_engine.h"

namespace triaccel {

/// Recomputes the activations of segments in backward: a forward pass keeps the inputs of each
/// segment and drops what the segment saves; the first tensor that backward asks for brings all of
/// the segment back. Gradients are the same to the last bit. On a GPU, whose captured passes cannot
/// draw the same random numbers again, segments that draw any are saved.
///
///   RecomputedSegments segments(device, {.finish = ..., .again = ...});
///   segments.begin_pass(/*captured=*/false);
///   { SegmentScope scope(segments); logits = forward(inputs); }
///   logits.backward(gradient);
///
/// Nothing here waits for the device, so a pass may be captured. Segments inside a segment are part
/// of it.
class RecomputedSegments final : public SegmentRunner {
 public:
  struct Execution {
    /// Computes what is still deferred, before and after each segment.
    std::function<void()> finish;
    /// Calls its argument in backward so that its operators compute as in forward, with no effect
    /// but the result: running statistics and counters stay.
    RunAgain again;
  };

  /// `share` of the bytes that segments saved in the pass before are recomputed, from the first
  /// segment on: its activations would be kept longest.
  RecomputedSegments(c10::Device device, Execution execution, double share = 1);
  ~RecomputedSegments() override;

  /// Before each forward pass. `captured`: its generators cannot be read, so that segments draw
  /// random numbers if they did in the pass before, or if there was none, and are then saved.
  void begin_pass(bool captured);

  at::Tensor run(const std::vector<at::Tensor>& inputs, const SegmentForward& forward) override;

  /// Whether the next pass recomputes that share; the first one recomputes all.
  bool knows_bytes() const { return share_ == 1 || !measured_.empty(); }

  /// Of the last pass: segments that are recomputed.
  std::size_t recomputed() const { return recomputed_; }

 private:
  struct Segment;
  struct Measured {
    bool draws = true;  // random numbers
    std::int64_t bytes = 0;
  };

  std::vector<at::Tensor> generator_states() const;

  std::vector<at::Generator> generators_;
  std::shared_ptr<const Execution> execution_;
  bool captured_ = false;
  bool inside_ = false;  // a segment is being computed
  double share_;
  std::vector<Measured> measured_;  // the segments of a pass in their order, last measured
  std::size_t next_ = 0;            // segment of this pass
  std::int64_t bytes_before_ = 0;   // of the segments before it
  std::int64_t bytes_allowed_ = 0;  // of segments that are recomputed
  std::size_t recomputed_ = 0;
};

}  // namespace triaccel
