#include "triaccel/layers/execution/layer_nodes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

#include "triaccel/layers/convolution/convolution_parts.h"
#include "triaccel/layers/convolution/kept_map.h"
#include "triaccel/layers/execution/gradient_delivery.h"
#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/layers/execution/linear_product.h"
#include "triaccel/layers/execution/rounding.h"
#include "triaccel/ops/tensors/autograd_node.h"
#include "triaccel/ops/tensors/even_pixels.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

bool is_low(Precision precision) { return bytes_per_element(precision) < 4; }

/// What may be held for work on the side stream, and what one layer's work may add to it: above
/// that, kernels fill the device by themselves and get in each other's way.
constexpr std::int64_t kMostHeldBytes = 16 << 20;
constexpr std::int64_t kMostByLayer = 32 << 20;

/// What a layer keeps of its input: the input as it came, shared with whoever else keeps it. Only
/// an FP32 input of a 16-bit layer (the first of a network) is kept in the layer's type.
at::Tensor kept_input(const at::Tensor& input, Precision precision) {
  return is_low(precision) && input.scalar_type() == at::kFloat
             ? input.to(scalar_type_of(precision))
             : input;
}

/// Where the gradient of a layer's input goes: to the node that made the input, if that adds up its
/// gradients by itself, else through autograd's graph.
class InputGradient {
 public:
  explicit InputGradient(const at::Tensor& input)
      : behind_(TakesGradient::behind(input)), type_(input.scalar_type()) {}

  at::ScalarType type() const { return type_; }
  /// The gradient may have the even pixels of the map alone.
  bool takes_even_pixels() const { return behind_ != nullptr; }

  /// What is left to send through the graph; undefined: nothing. `sizes` of the input.
  at::Tensor deliver(const at::Tensor& gradient, const SideStream::Work& maker,
                     at::IntArrayRef sizes) const {
    if (!gradient.defined() || (behind_ && behind_->leave({gradient, maker}))) return {};
    maker.wait();
    return gradient.sizes() == sizes ? gradient : scatter_even_pixels(gradient, sizes);
  }

 private:
  std::shared_ptr<TakesGradient> behind_;
  at::ScalarType type_;
};

class WeightNode : public autograd::Node {
 public:
  explicit WeightNode(Layer layer) : layer_(std::move(layer)) {}
  const at::Tensor& weight() const { return layer_.weight; }

 protected:
  Layer layer_;
};

/// Everything but the product itself, which `Product` computes: forward(input, bias, layer), the
/// bias undefined or added, then backward(output_gradient, input, layer, types).
template <typename Product>
class LayerNode final : public WeightNode, public OnBranch {
 public:
  LayerNode(const at::Tensor& input, const at::Tensor& kept, bool want_weight, LayerBias bias,
            Product product, Layer layer)
      : WeightNode(std::move(layer)),
        input_(input),
        want_weight_(want_weight),
        kept_(kept, layer_.arithmetic.recompute_norms),
        bias_(std::move(bias)),
        product_(std::move(product)) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    require_single_backward();
    const at::NoGradGuard no_grad;
    at::Tensor output = std::move(gradients[0]);
    const LeftGradient left = std::exchange(left_on_branch_, {});
    if (!output.defined() && !left.values.defined()) return {{}, {}, {}};
    const ParameterGradient goes =
        want_weight_ ? parameter_gradient_along(next_edge(2)) : ParameterGradient::None;
    if (goes == ParameterGradient::Left) layer_.gradients.watch(next_edge(2), layer_.weight);
    const GradientTypes types{.want_input = task_should_compute_output(0),
                              .want_weight = goes != ParameterGradient::None,
                              .input = is_scaled() ? at::kHalf : input_.type(),
                              .weight = scalar_type_of(layer_.arithmetic.precision),
                              .even_pixels = input_.takes_even_pixels()};
    const bool want_bias = task_should_compute_output(1);
    if (left.values.defined()) {
      if (!output.defined() && !is_scaled() && types.want_input && !want_bias &&
          goes != ParameterGradient::Sent)
        return {gradients_on_branch(left, types), {}, {}};
      left.maker.wait();
      output = output.defined() ? output + left.values : left.values;
    }
    const at::Tensor entering = scaled(output);
    const at::Tensor kept = kept_.get(getptr());
    at::Tensor input, weight;
    if (goes == ParameterGradient::Sent) {
      LayerGradients found = product_.backward(entering, kept, layer_, types);
      input = std::move(found.input);
      weight = wide_gradient(found.weight, layer_.gradients.scales, layer_.number);
    } else {
      input = gradients_of(entering, kept, types);
    }
    input = input_.deliver(unscaled(input), {}, kept.sizes());
    at::Tensor bias;
    const bool leaves_bias =
        want_bias && parameter_gradient_along(next_edge(1)) == ParameterGradient::Left;
    if (want_bias) bias = bias_.gradient(output, leaves_bias ? layer_.gradients.side : nullptr);
    if (want_bias && !bias.defined()) layer_.gradients.watch(next_edge(1), bias_.values);
    return {std::move(input), std::move(bias), std::move(weight)};
  }

  bool leave_on_branch(LeftGradient gradient) override {
    if (left_on_branch_.values.defined()) return false;
    left_on_branch_ = std::move(gradient);
    return true;
  }

  void release_variables() override {
    kept_.release();
    left_on_branch_ = {};
  }
  std::string name() const override { return "triaccel::LayerNode"; }

 private:
  /// Whether gradients inside the layer are FP16, multiplied by its scale.
  bool is_scaled() const { return layer_.arithmetic.precision == Precision::Fp16; }

  at::Tensor scaled(const at::Tensor& output) const {
    if (!is_scaled()) return output;
    return scaled_cast(output, at::kHalf, layer_.gradients.scales, layer_.number, /*divide=*/false,
                       /*record_maximum=*/true);
  }

  /// Its maximum is recorded too: it may be larger than what came in, and it is this layer's scale
  /// to lower.
  at::Tensor unscaled(const at::Tensor& input) const {
    if (!is_scaled() || !input.defined()) return input;
    return scaled_cast(input, input_.type(), layer_.gradients.scales, layer_.number,
                       /*divide=*/true, /*record_maximum=*/true);
  }

  at::Tensor input_gradient(const at::Tensor& output, const at::Tensor& kept,
                            GradientTypes types) const {
    types.want_weight = false;
    return product_.backward(output, kept, layer_, types).input;
  }

  void give_weight_on_side_stream(const SideStream::Mark& mark, const at::Tensor& output,
                                  const at::Tensor& kept, GradientTypes types) const {
    types.want_input = false;
    types.want_weight = true;
    layer_.gradients.give_on_side_stream(
        layer_.weight, [&] { return product_.backward(output, kept, layer_, types).weight; },
        {output, kept}, mark);
  }

  /// On the stream that made `left`; returns what goes through the graph.
  at::Tensor gradients_on_branch(const LeftGradient& left, const GradientTypes& types) {
    const at::Tensor& output = left.values;
    const at::Tensor kept = kept_.get(getptr());
    at::Tensor input;
    const SideStream::Work work = left.maker.stream->run(
        [&] { input = input_gradient(output, kept, types); }, {output, kept});
    if (types.want_weight) {
      SideStream& side = *layer_.gradients.side;
      side.come_after(left.maker);
      give_weight_on_side_stream(side.mark(), output, kept, types);
      side.come_after(work);  // it reads the weight that an update is going to change
      layer_.gradients.announce(layer_.weight, /*on_side_stream=*/true);
    }
    return input_.deliver(input, work, kept.sizes());
  }

  /// Gives the weight its gradient and returns the input's. Nothing but the update waits for the
  /// weight's, so it may be computed on the side stream.
  at::Tensor gradients_of(const at::Tensor& output, const at::Tensor& kept,
                          const GradientTypes& types) const {
    SideStream* const side = layer_.gradients.side;
    at::Tensor input;
    // The first layer has nothing that its weight's gradient could overlap with.
    const bool on_side_stream =
        side != nullptr && types.want_weight && types.want_input &&
        static_cast<std::int64_t>(output.nbytes() + kept.nbytes()) <= kMostByLayer;
    if (!on_side_stream) {
      if (side != nullptr && layer_.weight.grad().defined()) side->join();  // of another use
      auto [of_input, of_weight] = product_.backward(output, kept, layer_, types);
      input = std::move(of_input);
      if (types.want_weight) layer_.gradients.give(layer_.weight, std::move(of_weight));
    } else {
      // The chain's own gradient is enqueued first: captured steps are faster so.
      const SideStream::Mark mark = side->mark();
      input = input_gradient(output, kept, types);
      give_weight_on_side_stream(mark, output, kept, types);
      side->wait_down_to(kMostHeldBytes);
    }
    // Nothing on the side stream reads the values of a weight, only its shape.
    if (layer_.arithmetic.prepared != nullptr && !layer_.gradients.accumulate)
      layer_.arithmetic.prepared->drop(layer_.number);
    if (types.want_weight) layer_.gradients.announce(layer_.weight, on_side_stream);
    return input;
  }

  InputGradient input_;
  bool want_weight_;
  KeptMap kept_;
  LayerBias bias_;
  Product product_;
  LeftGradient left_on_branch_;
};

struct ConvolutionProduct {
  ConvolutionGeometry geometry;

  at::Tensor kept(const at::Tensor& input, const Layer& layer) const {
    const Precision precision = layer.arithmetic.precision;
    return is_stem_convolution(input, layer.weight, geometry, precision)
               ? input
               : kept_input(input, precision);
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& bias, const Layer& layer) const {
    at::Tensor output = convolution_forward_in_parts(input, of(layer), layer.arithmetic.carrier,
                                                     samples_at_a_time(input, of(layer)));
    if (bias.defined()) add_bias_along(output, bias, /*channel=*/1);
    return output;
  }
  LayerGradients backward(const at::Tensor& output, const at::Tensor& input, const Layer& layer,
                          const GradientTypes& types) const {
    return convolution_backward_in_parts(output, input, of(layer), types,
                                         samples_at_a_time(input, of(layer)));
  }

 private:
  LayerConvolution of(const Layer& layer) const {
    return {layer.operand(), geometry, layer.arithmetic.precision, layer.arithmetic.kernel};
  }
};

struct LinearProduct {
  at::Tensor kept(const at::Tensor& input, const Layer& layer) const {
    return kept_input(input, layer.arithmetic.precision);
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& bias, const Layer& layer) const {
    const LayerArithmetic& arithmetic = layer.arithmetic;
    return linear_forward(input, layer.operand(), bias, arithmetic.precision,
                          arithmetic.kernel.arithmetic, arithmetic.carrier);
  }
  LayerGradients backward(const at::Tensor& output, const at::Tensor& input, const Layer& layer,
                          const GradientTypes& types) const {
    return linear_backward(output, input, layer.operand(), layer.arithmetic.precision,
                           layer.arithmetic.kernel.arithmetic, types);
  }
};

/// `want_weight`: the call's own weight, which may be a detached view of the parameter, takes part
/// in the gradient.
template <typename Product>
at::Tensor run_layer(const at::Tensor& input, bool want_weight, LayerBias bias, Product product,
                     const Layer& layer, Branch* branch = nullptr) {
  at::Tensor kept, output;
  {
    const at::NoGradGuard no_grad;
    kept = product.kept(input, layer);
    const auto compute = [&] {
      output = product.forward(kept, bias.values, layer);
      // The module may go on in place, which autograd refuses for views made without it.
      if (output.is_view()) output = output.variable_data();
    };
    if (branch != nullptr)
      branch->run(compute, {kept});
    else
      compute();
  }
  if (!at::GradMode::is_enabled()) return output;
  if (!want_weight && !autograd::compute_requires_grad(input, bias.values)) return output;
  autograd::edge_list edges = autograd::collect_next_edges(input, bias.values);
  edges.push_back(want_weight ? autograd::impl::gradient_edge(layer.weight) : autograd::Edge());
  const auto node = make_node<LayerNode<Product>>(input, kept, want_weight, std::move(bias),
                                                  std::move(product), layer);
  node->set_next_edges(std::move(edges));
  autograd::set_history(output, node);
  return output;
}

}  // namespace

at::Tensor weight_of(const autograd::Node& node) {
  const auto* layer = dynamic_cast<const WeightNode*>(&node);
  return layer == nullptr ? at::Tensor() : layer->weight();
}

at::Tensor convolution_layer(const ConvolutionCall& call, const Layer& layer, Branch* branch) {
  return run_layer(call.input, call.weight.requires_grad(),
                   {call.bias.value_or(at::Tensor()), /*channel=*/1},
                   ConvolutionProduct{call.geometry}, layer, branch);
}

at::Tensor linear_layer(const LinearCall& call, const Layer& layer) {
  return run_layer(call.input, call.weight.requires_grad(),
                   {call.bias.value_or(at::Tensor()), call.input.dim() - 1}, LinearProduct{},
                   layer);
}

}  // namespace triaccel
