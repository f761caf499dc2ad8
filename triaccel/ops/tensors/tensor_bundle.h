#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel {

/// One parameter of a network: its full name and the layer whose learning rate it follows.
struct ParameterRef {
  std::string name;
  at::Tensor tensor;
  std::int64_t layer;
};

/// The parameters of a network, checked once, as multi-tensor kernels want them. What happens every
/// step allocates nothing.
class TensorBundle {
 public:
  /// Parameters must be FP32, dense, on one device and share no memory; `who` names the public
  /// call.
  TensorBundle(std::string who, std::vector<ParameterRef> parameters);

  /// A zeroed tensor for every parameter, in its shape and memory order, bound as state 1 or 2; in
  /// the memory of the device, or of the host for the device to use in place.
  std::vector<at::Tensor> add_state(int which, bool in_host_memory = false);

  /// The same in 8 bits: a U8 tensor of kernels::quantized_state_bytes() for every parameter.
  std::vector<at::Tensor> add_quantized_state(int which);

  /// What kernels read of a parameter, to bind states of other shapes.
  kernels::TensorEntry& entry(std::size_t parameter) { return all_[parameter]; }

  /// Binds the parameters' present gradients; parameters without one drop out of
  /// with_gradients() until the next call.
  void bind_gradients();

  std::span<const kernels::TensorEntry> all() const { return all_; }
  std::span<const kernels::TensorEntry> with_gradients() const { return with_gradients_; }
  const std::vector<ParameterRef>& parameters() const { return parameters_; }
  const at::Device& device() const { return device_; }
  std::int64_t layer_count() const { return layer_count_; }  // highest layer id + 1
  const std::string& who() const { return who_; }

 private:
  std::string who_;
  std::vector<ParameterRef> parameters_;
  at::Device device_ = at::Device(at::kCPU);
  std::int64_t layer_count_ = 0;
  std::vector<kernels::TensorEntry> all_;             // index = parameter
  std::vector<kernels::TensorEntry> with_gradients_;  // capacity for all of them
};

/// Tensors of the shapes, memory orders and type of `like` (dense, all of one type and device), on
/// their device or another, uninitialised, one behind the other in a single allocation, each at a
/// multiple of 32 elements: allocators round every allocation up, a GPU's to many megabytes.
std::vector<at::Tensor> in_flat_buffer(const std::vector<at::Tensor>& like,
                                       std::optional<c10::Device> device = {});

}  // namespace triaccel
