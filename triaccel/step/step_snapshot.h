#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "triaccel/ops/update/multi_tensor.h"

namespace triaccel {

/// What a forward pass changes besides gradients: the network's buffers (running statistics of
/// norms) and the random generators. Taken before a step, put back when the step fails, so that the
/// step can be tried again as if it had never been.
class StepSnapshot {
 public:
  /// Allocates room for the buffers once.
  StepSnapshot(const std::vector<at::Tensor>& buffers, c10::Device device);

  void take_generators();
  void take_buffers();  // allocates nothing
  void put_back() {
    put_back_buffers();
    put_back_generators();
  }
  void put_back_buffers();
  void put_back_generators();

  /// Whether random numbers were drawn since take_generators().
  bool drew() const;

  /// Puts the buffers back, on the device and without waiting for it, when GradientControl decided
  /// to skip the step: what made its gradients infinite is in the running statistics too.
  void put_back_if_skipped(const at::Tensor& step_control) const;

 private:
  RestorePairs statistics_;  // in one launch, whatever their types: each step begins with it
  std::vector<at::Tensor> others_;
  std::vector<at::Tensor> copies_of_others_;
  std::vector<at::Generator> generators_;  // of the CPU, and of the device where it is another
  std::vector<at::Tensor> generator_states_;
};

}  // namespace triaccel
