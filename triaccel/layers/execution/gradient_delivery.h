#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/device/side_stream.h"
#include "triaccel/layers/execution/other_gradients.h"

namespace triaccel {

/// Told when a layer has left the gradient of its weight and will not read that weight again;
/// `on_side_stream`: the gradient was made there.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void gradient_ready(const at::Tensor& weight, bool on_side_stream) = 0;
};

/// A weight gradient in FP32, whatever type it is stored in; an FP16 one is divided by its layer's
/// scale.
at::Tensor wide_gradient(const at::Tensor& gradient, const at::Tensor& scales, std::int64_t layer);

/// How the gradient of a layer's weight gets into weight.grad(), where the update reads it.
/// Autograd is passed by, since it would widen the gradient.
struct GradientDelivery {
  std::int64_t layer = 0;
  at::Tensor scales = {};      // GradientControl::layer_scales
  bool accumulate = false;     // the gradient is a sum over several passes
  at::Tensor sum = {};         // memory for it, as the weight; undefined: it is allocated
  SideStream* side = nullptr;  // for parameters' gradients; null: all on the main stream
  GradientListener* listener = nullptr;
  std::shared_ptr<OtherGradients> others = {};

  /// Adds the gradient to what is there. A 16-bit one stays as it is unless it is a sum: over
  /// passes, or over several uses of the weight.
  void give(const at::Tensor& weight, at::Tensor gradient) const;

  /// The same for what `compute` returns, all of it on the side stream. `reads` are kept alive.
  /// With a mark as SideStream::run_after, else as SideStream::run.
  void give_on_side_stream(const at::Tensor& weight, const std::function<at::Tensor()>& compute,
                           std::vector<at::Tensor> reads, const SideStream::Mark& mark = {}) const;

  /// `edge` leads from a node that leaves the gradient of `parameter` to it.
  void watch(const torch::autograd::Edge& edge, const at::Tensor& parameter) const {
    if (others) others->watch(edge, parameter, layer);
  }

  void announce(const at::Tensor& weight, bool on_side_stream) const {
    if (listener != nullptr) listener->gradient_ready(weight, on_side_stream);
  }
};

/// Adds an FP32 gradient to parameter.grad() as autograd does, without it.
void add_to_grad(const at::Tensor& parameter, at::Tensor gradient);

/// Adds a layer's bias, one number for each place along the dimension `channel` of its output.
void add_bias_along(at::Tensor& output, const at::Tensor& bias, std::int64_t channel);

/// The bias's gradient, F32: the sums over all other dimensions.
at::Tensor bias_gradient_along(const at::Tensor& output_gradient, std::int64_t channel);

/// The bias of a layer and the dimension of the output that it runs along.
struct LayerBias {
  at::Tensor values = {};  // undefined: none
  std::int64_t channel = 0;

  bool leaves_gradient(const SideStream* side) const { return side != nullptr && values.is_leaf(); }
  /// Its gradient for autograd; undefined where it goes into grad() on the side stream instead.
  at::Tensor gradient(const at::Tensor& output_gradient, SideStream* side) const;
};

}  // namespace triaccel
