#include "triaccel/step/step_snapshot.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace triaccel {

namespace {

std::vector<at::Tensor> empty_copies(const std::vector<at::Tensor>& buffers) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : buffers) copies.push_back(at::empty_like(buffer));
  return copies;
}

/// Running statistics and counters; masks and tables of other types do not change in a step.
std::vector<at::Tensor> statistics_among(const std::vector<at::Tensor>& buffers,
                                         const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> chosen;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].scalar_type() == at::kFloat || buffers[i].scalar_type() == at::kLong)
      chosen.push_back(values[i]);
  return chosen;
}

}  // namespace

StepSnapshot::StepSnapshot(std::vector<at::Tensor> buffers, c10::Device device)
    : buffers_(std::move(buffers)),
      copies_(empty_copies(buffers_)),
      pairs_("StepSnapshot", statistics_among(buffers_, buffers_),
             statistics_among(buffers_, copies_)),
      generator_(at::globalContext().defaultGenerator(device)) {}

void StepSnapshot::take() {
  at::NoGradGuard no_grad;
  generator_state_ = generator_.get_state();  // the one thing here that allocates, so it is first
  if (!buffers_.empty()) at::_foreach_copy_(copies_, buffers_, /*non_blocking=*/true);
}

void StepSnapshot::put_back() {
  at::NoGradGuard no_grad;
  if (!buffers_.empty()) at::_foreach_copy_(buffers_, copies_, /*non_blocking=*/true);
  generator_.set_state(generator_state_);
}

void StepSnapshot::put_back_if_skipped(const at::Tensor& step_control) const {
  pairs_.restore_if_skipped(step_control);
}

}  // namespace triaccel
