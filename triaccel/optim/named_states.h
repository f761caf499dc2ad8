#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/kernels/update/quantized_update.h"
#include "triaccel/kernels/update/state_codec.h"
#include "triaccel/ops/tensors/tensor_bundle.h"
#include "triaccel/optim/optimizer.h"

namespace triaccel {

/// One tensor per parameter, as state "<kind>/<parameter name>".
class NamedStates {
 public:
  NamedStates(std::string kind, std::vector<at::Tensor> tensors)
      : kind_(std::move(kind)), tensors_(std::move(tensors)) {}

  /// A zeroed moment for every parameter of `bundle`, bound there, in the format of the options.
  NamedStates(std::string kind, TensorBundle& bundle, kernels::Moment moment,
              const OptimizerOptions& options);

  void append_to(std::vector<StateView>& states, const std::vector<ParameterRef>& owners) const;
  void check(const StateMap& saved, const std::vector<ParameterRef>& owners) const;
  void restore(const StateMap& saved, const std::vector<ParameterRef>& owners);

  std::int64_t device_bytes() const { return in_host_memory_ ? 0 : all_bytes(); }
  std::int64_t host_bytes() const { return in_host_memory_ ? all_bytes() : 0; }
  std::vector<at::Tensor>& tensors() { return tensors_; }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::int64_t all_bytes() const;

  std::string kind_;
  std::vector<at::Tensor> tensors_;           // index = parameter
  std::optional<kernels::Moment> quantized_;  // quantized moment; none: FP32
  bool in_host_memory_ = false;
  std::uint64_t seed_ = 0;  // for stochastic rounding when restoring
};

/// Seed of the stochastic rounding of 8-bit states.
std::uint64_t state_noise_seed(const OptimizerOptions& options);

/// The same as kernels take it: the states of all parameters share one flat buffer, in their order.
inline kernels::StateNoise state_noise(const TensorBundle& bundle, std::uint64_t seed) {
  return {.seed = seed, .origin = bundle.all().front().state1};
}

}  // namespace triaccel
