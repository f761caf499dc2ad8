#include "triaccel/ops/update/restore_if_skipped.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/kernels/update/restore_if_skipped.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {
namespace {

void check_pair(std::string_view who, const at::Tensor& live, const at::Tensor& saved,
                const at::Device& device) {
  require(live.defined(), who, "a tensor to restore is undefined");
  check_tensor(who, "a tensor to restore", live, device, live.scalar_type());
  check_tensor(who, "a saved copy", saved, device, live.scalar_type());
  require(live.sizes() == saved.sizes() && same_memory_order(live, saved) &&
              live.is_non_overlapping_and_dense(),
          who, "a saved copy must have the shape and memory order of its dense tensor, got ",
          saved.sizes(), " for ", live.sizes(), "; make it with empty_like()");
  require(live.nbytes() % sizeof(float) == 0, who, "a tensor of ", live.nbytes(),
          " bytes does not hold whole 32-bit words");
}

}  // namespace

RestorePairs::RestorePairs(std::string who, std::vector<at::Tensor> live,
                           std::vector<at::Tensor> saved)
    : who_(std::move(who)), live_(std::move(live)), saved_(std::move(saved)) {
  require(live_.size() == saved_.size(), who_, live_.size(), " tensors, but ", saved_.size(),
          " saved copies");
  entries_.reserve(live_.size());
  for (std::size_t i = 0; i < live_.size(); ++i) {
    check_pair(who_, live_[i], saved_[i], live_.front().device());
    entries_.push_back({.parameter = static_cast<float*>(live_[i].mutable_data_ptr()),
                        .state1 = static_cast<float*>(saved_[i].mutable_data_ptr()),
                        .count = static_cast<std::int64_t>(live_[i].nbytes() / sizeof(float))});
  }
}

void RestorePairs::save() const {
  if (entries_.empty()) return;
  dispatch<kernels::cpu::save_to_restore, kernels::cuda::save_to_restore>(
      who_, live_.front().device(), entries_);
}

void RestorePairs::restore() const {
  if (entries_.empty()) return;
  dispatch<kernels::cpu::restore, kernels::cuda::restore>(who_, live_.front().device(), entries_);
}

void RestorePairs::restore_if_skipped(const at::Tensor& step_control) const {
  if (entries_.empty()) return;
  const at::Device device = live_.front().device();
  const kernels::StepControl* control = step_control_of(who_, step_control, device);
  dispatch<kernels::cpu::restore_if_skipped, kernels::cuda::restore_if_skipped>(who_, device,
                                                                                entries_, control);
}

}  // namespace triaccel
