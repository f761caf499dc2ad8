#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "triaccel/signals/probe_pass.h"
#include "triaccel/signals/sample_gradients.h"

namespace triaccel {

/// Hooks the backward pass at every layer's output and computes the layer's Gram matrix
/// immediately, so that no input or output gradient is kept longer than in training.
class TappedLayers final : public FrozenHooks {
 public:
  /// `weights` as in ProbeNetwork; `with_bias` includes biases in their layers' blocks.
  TappedLayers(const std::vector<at::Tensor>& weights, bool with_bias, const GramSize& size);

  at::Tensor convolution(const ConvolutionCall& call) override;
  at::Tensor linear(const LinearCall& call) override;
  at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices,
                       std::int64_t padding_index, bool scale_grad_by_freq, bool sparse) override;
  bool owns(const at::Tensor& matrix) const override { return layer_of(matrix) >= 0; }

  /// Every tapped output depends on it: differentiate the loss with respect to it.
  const at::Tensor& root() const { return root_; }

  /// [samples, samples] for each layer; undefined where nothing was tapped.
  std::vector<at::Tensor> finish();

 private:
  /// Which elements of a weight an operator used. Equal blocks add up; others are orthogonal.
  using Block = std::tuple<const void*, std::int64_t, std::int64_t>;  // address, elements, slices
  struct Layer {
    std::int64_t expected = 0, arrived = 0;  // uses in the forward, in the backward pass
    std::map<Block, std::vector<SampleGradients>> pending = {};
    at::Tensor gram = {};
  };
  using OutputGradient = std::function<at::Tensor(const at::Tensor&, bool want_input)>;

  std::int64_t layer_of(const at::Tensor& weight) const;  // -1: not a layer
  bool has_samples_first(const at::Tensor& input) const;
  /// The layer if it is trainable and its input has the samples first; otherwise -1.
  std::int64_t tappable(const at::Tensor& weight, const at::Tensor& input) const;
  /// `output` with a backward hook that calls `work`.
  at::Tensor tap(std::int64_t layer, const at::Tensor& input, at::Tensor output,
                 OutputGradient work);
  void add(std::int64_t layer, const at::Tensor& weight, SampleGradients gradients);
  void add_bias(std::int64_t layer, const std::optional<at::Tensor>& bias,
                const at::Tensor& output_gradient, std::int64_t channels);
  void arrive(std::int64_t layer);
  void reduce(Layer& layer) const;

  std::map<const std::byte*, std::pair<const std::byte*, std::int64_t>> spans_;  // end, layer
  bool with_bias_;
  GramSize size_;
  at::Tensor root_;
  std::vector<Layer> layers_;
};

}  // namespace triaccel
