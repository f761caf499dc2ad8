#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/kernels/zeroth_order/zo_estimate.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"
#include "triaccel/ops/tensors/tensor_bundle.h"

namespace triaccel {

/// The weights that zeroth-order steps move, as kernels take them. An element's number, which
/// decides its noise, is its place in row-major order behind all parameters before it, whatever
/// its memory order and whichever layers are chosen.
class ZoTensors {
 public:
  /// `parameters` are all of the network's: FP32, contiguous or channels-last, on one device.
  /// Perturbations are of size `epsilon`.
  ZoTensors(std::string who, std::vector<ParameterRef> parameters, double epsilon);

  /// From now on the parameters of these layers move, and no others. A tensor that has no grid yet,
  /// or has outgrown it, is given one and rounded to it (Note [Weights on a grid]): to 2^-22 of its
  /// largest weight. Waits for the device.
  void choose(const std::vector<bool>& layers);

  void move(const kernels::ZoMove& move) const;

  bool empty() const { return entries_.empty(); }
  const std::vector<at::Tensor>& chosen() const { return chosen_; }
  const at::Device& device() const { return device_; }

  /// Of the grid step of every parameter; kNoGrid where there is none yet.
  static constexpr std::int64_t kNoGrid = 1 << 20;
  const std::vector<std::int64_t>& exponents() const { return exponents_; }
  void set_exponents(std::vector<std::int64_t> exponents);

 private:
  void round_to_grid(std::size_t index);

  std::string who_;
  std::vector<ParameterRef> parameters_;
  double epsilon_;
  at::Device device_ = at::Device(at::kCPU);
  std::vector<kernels::ZoTensor> numbering_;  // index = parameter
  std::vector<std::int64_t> exponents_;       // likewise
  at::Tensor records_;                        // the same in device memory
  std::vector<kernels::TensorEntry> entries_;
  std::vector<at::Tensor> chosen_;
};

/// Both check nothing: their callers own all memory behind the pointers.
void zo_estimate(const kernels::ZoEstimate& estimate, const at::Device& device);
void zo_close(const kernels::ZoEstimate& estimate, const kernels::StepControl* control,
              const at::Device& device);

}  // namespace triaccel
