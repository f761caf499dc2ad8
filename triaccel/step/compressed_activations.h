#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/saved/saved_store.h"
#include "triaccel/saved/saved_tensor_engine.h"

namespace triaccel {

/// The activations that a step saves for backward, compressed where the plan says so. Without
/// options autograd keeps all of them, and plans may say nothing about them.
class CompressedActivations {
 public:
  /// `constants` as SavedStore.
  CompressedActivations(const std::optional<SavedStoreOptions>& options,
                        std::vector<at::Tensor> constants, c10::Device device);

  SavedStore* store() { return store_.get(); }  // null: none is compressed
  const SavedCensus& census() const { return census_; }

  /// Plans from now on are for this census. True: it is another one than before.
  bool set_census(SavedCensus census);

  /// What the steps to come do. `samples` of a step.
  void follow(const StepPlan& plan, std::int64_t samples);

  /// Around each pass: `forward` with what it saves kept as planned, then backward, then
  /// end_pass(), or abandon_pass() where the pass failed.
  at::Tensor forward(const std::function<at::Tensor()>& forward);
  /// The same for a forward pass of the caller's own, which ends with the scope. Null: as autograd
  /// does it.
  std::unique_ptr<SavedTensorScope> begin_pass();
  void end_pass();
  void abandon_pass();

  /// The last step has been enqueued: a replay of it changes no size.
  void note_counts();

  /// What the device counted since the last report, which it waits for.
  void report(StepReport& report);

 private:
  std::unique_ptr<SavedTensorScope> begin_pass(bool in_step);

  std::unique_ptr<SavedStore> store_;
  SavedCensus census_;
  bool compresses_ = false;          // the last plan says how tensors are saved
  std::vector<SavedPlan> followed_;  // by the store
  std::uint64_t shape_ = 0;          // of the last step
  std::unordered_map<std::uint64_t, SavedCounts> counts_;  // by shape of the step
};

}  // namespace triaccel
