#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel {

/// Tensors and their saved copies, checked once. Their memory must stay where it is.
class RestorePairs {
 public:
  /// live[i] and saved[i] have one shape, type, memory order and device, are dense, and hold whole
  /// 32-bit words (F32, int64, ...). There may be none. `who` names the public call.
  RestorePairs(std::string who, std::vector<at::Tensor> live, std::vector<at::Tensor> saved);

  /// These only enqueue and allocate nothing.
  void save() const;     // copies live to saved
  void restore() const;  // copies saved to live
  /// Likewise when the step of `step_control` (GradientControl's) is skipped; else touches nothing.
  void restore_if_skipped(const at::Tensor& step_control) const;

 private:
  std::string who_;
  std::vector<at::Tensor> live_, saved_;  // keep the memory alive
  std::vector<kernels::TensorEntry> entries_;
};

}  // namespace triaccel
