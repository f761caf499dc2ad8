#include "triaccel/step/step_snapshot.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>

#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

namespace {

/// Running statistics and counters, which a step changes. Masks and tables of other types hardly
/// ever change.
bool is_statistic(const at::Tensor& buffer) {
  return (buffer.scalar_type() == at::kFloat || buffer.scalar_type() == at::kLong) &&
         buffer.is_non_overlapping_and_dense();
}

std::vector<at::Tensor> statistics_among(const std::vector<at::Tensor>& buffers) {
  std::vector<at::Tensor> chosen;
  std::ranges::copy_if(buffers, std::back_inserter(chosen), is_statistic);
  return chosen;
}

std::vector<at::Tensor> others_among(const std::vector<at::Tensor>& buffers) {
  std::vector<at::Tensor> chosen;
  std::ranges::remove_copy_if(writable_among(buffers), std::back_inserter(chosen), is_statistic);
  return chosen;
}

std::vector<at::Tensor> empty_copies(const std::vector<at::Tensor>& buffers) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : buffers) copies.push_back(at::empty_like(buffer));
  return copies;
}

void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  const at::NoGradGuard no_grad;
  if (!to.empty()) at::_foreach_copy_(to, from, /*non_blocking=*/true);
}

/// A network on a GPU may draw on the host too.
std::vector<at::Generator> generators_for(c10::Device device) {
  std::vector<at::Generator> all = {at::globalContext().defaultGenerator(at::Device(at::kCPU))};
  if (!device.is_cpu()) all.push_back(at::globalContext().defaultGenerator(device));
  return all;
}

}  // namespace

StepSnapshot::StepSnapshot(const std::vector<at::Tensor>& buffers, c10::Device device)
    : statistics_("StepSnapshot", statistics_among(buffers),
                  empty_copies(statistics_among(buffers))),
      others_(others_among(buffers)),
      copies_of_others_(empty_copies(others_)),
      generators_(generators_for(device)),
      generator_states_(generators_.size()) {}

void StepSnapshot::take_generators() {
  for (std::size_t i = 0; i < generators_.size(); ++i)
    generator_states_[i] = generators_[i].get_state();
}

void StepSnapshot::take_buffers() {
  statistics_.save();
  copy_all(copies_of_others_, others_);
}

void StepSnapshot::put_back_buffers() {
  statistics_.restore();
  copy_all(others_, copies_of_others_);
}

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
  statistics_.restore_if_skipped(step_control);
}

}  // namespace triaccel
