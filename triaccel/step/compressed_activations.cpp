#include "triaccel/step/compressed_activations.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"

namespace triaccel {

CompressedActivations::CompressedActivations(const std::optional<SavedStoreOptions>& options,
                                             std::vector<at::Tensor> constants,
                                             c10::Device device) {
  if (!options) return;
  install_saved_tensor_engine();
  store_ = std::make_unique<SavedStore>(*options, std::move(constants), device);
}

bool CompressedActivations::set_census(SavedCensus census) {
  if (census == census_) return false;
  followed_.clear();
  census_ = std::move(census);
  return true;
}

void CompressedActivations::follow(const StepPlan& plan, std::int64_t samples) {
  require(plan.saved.empty() || store_, "StepRunner::run",
          "the plan says how tensors are saved; set StepRunnerOptions::saved");
  compresses_ = !plan.saved.empty();
  shape_ = mixed_hash(shape_hash(plan), static_cast<std::uint64_t>(samples));
  if (!compresses_ || plan.saved == followed_) return;
  store_->follow(census_, plan.saved);
  followed_ = plan.saved;
}

at::Tensor CompressedActivations::forward(const std::function<at::Tensor()>& forward) {
  const std::unique_ptr<SavedTensorScope> scope = begin_pass(/*in_step=*/true);
  return forward();
}

std::unique_ptr<SavedTensorScope> CompressedActivations::begin_pass() {
  return begin_pass(/*in_step=*/false);
}

std::unique_ptr<SavedTensorScope> CompressedActivations::begin_pass(bool in_step) {
  if (!compresses_) return nullptr;
  store_->begin_pass(in_step);
  return std::make_unique<SavedTensorScope>(*store_);
}

void CompressedActivations::end_pass() {
  if (compresses_) store_->end_pass();
}

void CompressedActivations::abandon_pass() {
  if (compresses_) store_->abandon_pass();
}

void CompressedActivations::note_counts() {
  if (compresses_) counts_[shape_] = store_->counts();
}

void CompressedActivations::report(StepReport& report) {
  if (!compresses_) return;
  report.saved = counts_[shape_];
  report.saved_nonfinite = store_->not_finite().item<std::int32_t>();
  store_->not_finite().zero_();
}

}  // namespace triaccel
