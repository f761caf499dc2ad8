#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/saved/saved_tensor_engine.h"

namespace torch::autograd {
struct Node;
}

namespace triaccel {

/// What errors of a saved tensor do to the gradient of the weight that it is multiplied with.
struct ErrorGain {
  std::int64_t entry = 0;             // of the census
  double weight_gradient_square = 0;  // sum over the weight
  double gain = 0;                    // what independent errors of variance 1 add to it
};

/// Watches a forward and a backward pass, in which every tensor is kept as it is.
///
///   ErrorGains gains(census, constants, weight_of);
///   { SavedTensorScope scope(gains); logits = forward(inputs); }
///   gains.watch(logits);
///   logits.backward(gradient);
///   gains.read();
class ErrorGains final : public SavedTensorKeeper {
 public:
  using WeightOf = std::function<at::Tensor(const torch::autograd::Node&)>;

  /// `constants`: those that the census numbers. `weight_of` knows the weights of nodes that save
  /// none, and gives nothing for others.
  ErrorGains(const SavedCensus& census, std::vector<at::Tensor> constants, WeightOf weight_of);
  ~ErrorGains() override;

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override;

  /// Listens to what flows into the operators behind `result` that multiply with weights.
  void watch(const at::Tensor& result);

  /// Once the gradients of the weights are in their grad(). Waits for the device.
  std::vector<ErrorGain> read() const;

 private:
  struct Watched;

  at::Tensor weight_for(const SavedEntry& entry, const torch::autograd::Node& node) const;

  const SavedCensus& census_;
  std::vector<at::Tensor> constants_;
  WeightOf weight_of_;
  std::vector<std::uint64_t> nodes_;  // by entry
  std::vector<std::shared_ptr<Watched>> watched_;
};

}  // namespace triaccel
