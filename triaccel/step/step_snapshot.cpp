#include "triaccel/step/step_snapshot.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace triaccel {

StepSnapshot::StepSnapshot(std::vector<at::Tensor> buffers, c10::Device device)
    : buffers_(std::move(buffers)), generator_(at::globalContext().defaultGenerator(device)) {
  for (const at::Tensor& buffer : buffers_) copies_.push_back(at::empty_like(buffer));
}

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

}  // namespace triaccel
