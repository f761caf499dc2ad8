#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "triaccel/device/side_stream.h"
#include "triaccel/ops/loss_data/step_inputs.h"
#include "triaccel/step/graph_cache.h"

namespace triaccel {

/// How the work of a step gets to the device.
class StepExecution {
 public:
  virtual ~StepExecution() = default;

  /// A step that may come again: `key` names everything that shapes it, `samples` are those of its
  /// largest pass, `inputs` what changes from one replay to the next.
  virtual void run(std::uint64_t key, std::int64_t samples, const GraphCache::Work& work,
                   StepInputs& inputs) = 0;

  /// Work that does not come again, kernel by kernel. OutOfMemory as it comes.
  virtual void run_once(const std::function<void()>& work) = 0;

  /// What captured steps read or write is about to move or to change.
  virtual void drop_captured() = 0;

  virtual SideStreams* side_streams() = 0;  // null: everything stays in one stream
  virtual GraphCache* graphs() = 0;         // null: nothing is captured
};

/// With `capture` whole steps are captured once and replayed from then on, else every step is
/// enqueued again.
std::unique_ptr<StepExecution> make_step_execution(bool capture);

}  // namespace triaccel
