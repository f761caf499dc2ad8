#include "triaccel/ops/tensors/segment.h"

namespace triaccel {
namespace {

thread_local SegmentRunner* active_runner = nullptr;

}  // namespace

SegmentScope::SegmentScope(SegmentRunner& runner)
    : previous_(std::exchange(active_runner, &runner)) {}
SegmentScope::~SegmentScope() { active_runner = previous_; }

at::Tensor run_segment(const std::vector<at::Tensor>& inputs, const SegmentForward& forward) {
  return active_runner != nullptr ? active_runner->run(inputs, forward) : forward(inputs);
}

}  // namespace triaccel
