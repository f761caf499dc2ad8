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

/// libtorch copies a list in one launch only where all of it is of one type.
void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> floats_to, floats_from, others_to, others_from;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool is_float = to[i].scalar_type() == at::kFloat;
    (is_float ? floats_to : others_to).push_back(to[i]);
    (is_float ? floats_from : others_from).push_back(from[i]);
  }
  if (!floats_to.empty()) at::_foreach_copy_(floats_to, floats_from, /*non_blocking=*/true);
  if (!others_to.empty()) at::_foreach_copy_(others_to, others_from, /*non_blocking=*/true);
}

/// A network on a GPU may draw on the host too.
std::vector<at::Generator> generators_for(c10::Device device) {
  std::vector<at::Generator> all = {at::globalContext().defaultGenerator(at::Device(at::kCPU))};
  if (!device.is_cpu()) all.push_back(at::globalContext().defaultGenerator(device));
  return all;
}

}  // namespace

StepSnapshot::StepSnapshot(std::vector<at::Tensor> buffers, c10::Device device)
    : buffers_(std::move(buffers)),
      copies_(empty_copies(buffers_)),
      pairs_("StepSnapshot", statistics_among(buffers_, buffers_),
             statistics_among(buffers_, copies_)),
      generators_(generators_for(device)),
      generator_states_(generators_.size()) {}

void StepSnapshot::take_generators() {
  for (std::size_t i = 0; i < generators_.size(); ++i)
    generator_states_[i] = generators_[i].get_state();
}

void StepSnapshot::take_buffers() { copy_all(copies_, buffers_); }

void StepSnapshot::put_back_buffers() { copy_all(buffers_, copies_); }

void StepSnapshot::put_back_generators() {
  for (std::size_t i = 0; i < generators_.size(); ++i)
    generators_[i].set_state(generator_states_[i]);
}

bool StepSnapshot::drew() const {
  for (std::size_t i = 0; i < generators_.size(); ++i)
    if (!at::equal(generators_[i].get_state(), generator_states_[i])) return true;
  return false;
}

void StepSnapshot::put_back_if_skipped(const at::Tensor& step_control) const {
  pairs_.restore_if_skipped(step_control);
}

}  // namespace triaccel
