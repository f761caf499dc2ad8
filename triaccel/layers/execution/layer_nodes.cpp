#include "triaccel/layers/execution/layer_nodes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <numeric>
#include <utility>

#include "triaccel/layers/convolution/convolution_parts.h"
#include "triaccel/layers/convolution/kept_map.h"
#include "triaccel/layers/execution/layer_bias.h"
#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/layers/execution/linear_product.h"
#include "triaccel/layers/execution/rounding.h"
#include "triaccel/ops/tensors/even_pixels.h"
#include "triaccel/ops/tensors/tensor_check.h"
#include "triaccel/ops/update/layer_scales.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

bool is_low(Precision precision) { return bytes_per_element(precision) < 4; }

/// What may be held for work beside the main stream, and what one layer's work may add to it: above
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

class WeightNode : public autograd::Node {
 public:
  explicit WeightNode(at::Tensor weight) : weight_(std::move(weight)) {}
  const at::Tensor& weight() const { return weight_; }

 protected:
  at::Tensor weight_;
};

/// Everything but the product itself, which `Product` computes: forward(input, bias), the bias
/// undefined or added, then backward(output_gradient, input, types) -> {input gradient, weight
/// gradient}.
template <typename Product>
class LayerNode final : public WeightNode, public OnBranch {
 public:
  LayerNode(const at::Tensor& input, const at::Tensor& kept, at::Tensor weight, bool want_weight,
            at::Tensor bias, std::int64_t channel, Product product, LayerArithmetic how)
      : WeightNode(std::move(weight)),
        behind_input_(TakesGradient::behind(input)),
        input_type_(input.scalar_type()),
        want_weight_(want_weight),
        kept_(kept, how.recompute_norms),
        bias_(std::move(bias)),
        channel_(channel),
        product_(std::move(product)),
        how_(std::move(how)) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;  // once only: curvature is probed without plans
    at::Tensor output = std::move(gradients[0]);
    const LeftGradient left = std::exchange(left_on_branch_, {});
    if (!output.defined() && !left.values.defined()) return {{}, {}};
    const bool scaled = how_.precision == Precision::Fp16;
    const GradientTypes types{.want_input = task_should_compute_output(0),
                              .want_weight = want_weight_,
                              .input = scaled ? at::kHalf : input_type_,
                              .weight = scalar_type_of(how_.precision),
                              .even_pixels = behind_input_ != nullptr};
    if (left.values.defined()) {
      if (!output.defined() && !scaled && types.want_input && !task_should_compute_output(1))
        return {gradients_on_branch(left, types), {}};
      left.maker.wait();
      output = output.defined() ? output + left.values : left.values;
    }
    const at::Tensor entering =
        scaled ? scaled_cast(output, at::kHalf, how_.scales, how_.layer, /*divide=*/false,
                             /*record_maximum=*/true)
               : output;
    const at::Tensor kept = kept_.get(shared_from_this());
    at::Tensor input = gradients_of(entering, kept, types);
    if (scaled && input.defined())
      // Recorded too: it may be larger than what came in, and it is this layer's scale to lower.
      input = scaled_cast(input, input_type_, how_.scales, how_.layer, /*divide=*/true,
                          /*record_maximum=*/true);
    if (input.defined() && behind_input_ && behind_input_->leave({input}))
      input.reset();
    else if (input.defined() && input.sizes() != kept.sizes())
      input = scatter_even_pixels(input, kept.sizes());
    if (!task_should_compute_output(1)) return {std::move(input), {}};
    if (how_.side == nullptr || !bias_.is_leaf())
      return {std::move(input), bias_gradient_along(output, channel_)};
    std::vector<at::Tensor> reads = {output};
    if (bias_.grad().defined()) reads.push_back(bias_.grad());  // of another use
    how_.side->run(
        [&] {
          at::Tensor& held = bias_.mutable_grad();
          at::Tensor sum = bias_gradient_along(output, channel_);
          held = held.defined() ? held + sum : std::move(sum);
        },
        std::move(reads));
    return {std::move(input), {}};
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
  /// On the stream that made `output`: leaves the input's gradient where it is waited for, or else
  /// waits for it and returns it.
  at::Tensor gradients_on_branch(const LeftGradient& left, GradientTypes types) {
    const at::Tensor& output = left.values;
    const LayerWeight weight(weight_, how_.layer, how_.prepared);
    const at::Tensor kept = kept_.get(shared_from_this());
    types.want_weight = false;
    at::Tensor input;
    const SideStream::Work work = left.maker.stream->run(
        [&] { input = product_.backward(output, kept, weight, how_, types).first; },
        {output, kept});
    if (want_weight_) {
      how_.side->come_after(left.maker);
      give_gradient_beside(how_.side->mark(), output, kept, types);
      how_.side->come_after(work);  // it reads the weight that an update is going to change
      if (how_.listener != nullptr) how_.listener->gradient_ready(weight_, /*beside=*/true);
    }
    if (behind_input_ && behind_input_->leave({input, work})) return {};
    work.wait();
    return input.sizes() == kept.sizes() ? input : scatter_even_pixels(input, kept.sizes());
  }

  void give_gradient_beside(const SideStream::Mark& mark, const at::Tensor& output,
                            const at::Tensor& kept, GradientTypes types) const {
    types.want_input = false;
    types.want_weight = true;
    std::vector<at::Tensor> reads = {output, kept};
    if (weight_.grad().defined()) reads.push_back(weight_.grad());  // of another use of the weight
    how_.side->run_after(
        mark,
        [&] {
          const LayerWeight weight(weight_, how_.layer, how_.prepared);
          give_gradient(weight_, product_.backward(output, kept, weight, how_, types).second, how_);
        },
        std::move(reads));
  }

  /// Gives the weight its gradient and returns the input's. Nothing but the update waits for the
  /// weight's, so it may be computed beside.
  at::Tensor gradients_of(const at::Tensor& output, const at::Tensor& kept,
                          const GradientTypes& types) const {
    const LayerWeight weight(weight_, how_.layer, how_.prepared);
    at::Tensor input;
    // The first layer has nothing to compute it beside of.
    const bool beside = how_.side != nullptr && types.want_weight && types.want_input &&
                        static_cast<std::int64_t>(output.nbytes() + kept.nbytes()) <= kMostByLayer;
    if (!beside) {
      if (how_.side != nullptr && weight_.grad().defined()) how_.side->join();  // of another use
      auto [of_input, of_weight] = product_.backward(output, kept, weight, how_, types);
      input = std::move(of_input);
      if (types.want_weight) give_gradient(weight_, std::move(of_weight), how_);
    } else {
      // The chain's own gradient is enqueued first: captured steps are up to 1.5 % faster so.
      const SideStream::Mark mark = how_.side->mark();
      GradientTypes of_input = types;
      of_input.want_weight = false;
      input = product_.backward(output, kept, weight, how_, of_input).first;
      give_gradient_beside(mark, output, kept, types);
      how_.side->wait_down_to(kMostHeldBytes);
    }
    // Nobody on the side stream reads the values of a weight, only its shape.
    if (how_.prepared != nullptr && !how_.accumulate) how_.prepared->drop(how_.layer);
    if (how_.listener != nullptr && types.want_weight)
      how_.listener->gradient_ready(weight_, beside);
    return input;
  }

  std::shared_ptr<TakesGradient> behind_input_;  // where the input's gradient may be left
  at::ScalarType input_type_;
  bool want_weight_;
  KeptMap kept_;
  at::Tensor bias_;       // undefined: none
  std::int64_t channel_;  // the dimension of the output that the bias runs along
  Product product_;
  LayerArithmetic how_;
  LeftGradient left_on_branch_;
};

struct ConvolutionProduct {
  ConvolutionGeometry geometry;

  at::Tensor kept(const at::Tensor& input, const at::Tensor& weight, Precision precision) const {
    return is_stem_convolution(input, weight, geometry, precision) ? input
                                                                   : kept_input(input, precision);
  }
  at::Tensor forward(const at::Tensor& input, const LayerWeight& weight, const at::Tensor& bias,
                     const LayerArithmetic& how) const {
    at::Tensor output = convolution_forward_in_parts(
        input, weight, geometry, how.precision, how.kernel, how.carrier,
        samples_at_a_time(input, weight.master, geometry, how.precision));
    if (bias.defined()) add_bias_along(output, bias, /*channel=*/1);
    return output;
  }
  std::pair<at::Tensor, at::Tensor> backward(const at::Tensor& output, const at::Tensor& input,
                                             const LayerWeight& weight, const LayerArithmetic& how,
                                             const GradientTypes& types) const {
    ConvolutionGradients gradients = convolution_backward_in_parts(
        output, input, weight, geometry, how.precision, how.kernel, types,
        samples_at_a_time(input, weight.master, geometry, how.precision));
    return {std::move(gradients.input), std::move(gradients.weight)};
  }
};

struct LinearProduct {
  at::Tensor kept(const at::Tensor& input, const at::Tensor&, Precision precision) const {
    return kept_input(input, precision);
  }
  at::Tensor forward(const at::Tensor& input, const LayerWeight& weight, const at::Tensor& bias,
                     const LayerArithmetic& how) const {
    return linear_forward(input, weight, bias, how.precision, how.kernel.arithmetic, how.carrier);
  }
  std::pair<at::Tensor, at::Tensor> backward(const at::Tensor& output, const at::Tensor& input,
                                             const LayerWeight& weight, const LayerArithmetic& how,
                                             const GradientTypes& types) const {
    LinearGradients gradients =
        linear_backward(output, input, weight, how.precision, how.kernel.arithmetic, types);
    return {std::move(gradients.input), std::move(gradients.weight)};
  }
};

/// `channel` is the dimension of the output that a bias runs along; `want_weight`: the call's own
/// weight, which may be a detached view of the parameter, takes part in the gradient.
template <typename Product>
at::Tensor run_layer(const at::Tensor& input, const at::Tensor& weight, bool want_weight,
                     const std::optional<at::Tensor>& bias, std::int64_t channel, Product product,
                     const LayerArithmetic& how, Branch* branch = nullptr) {
  const at::Tensor bias_or_none = bias.value_or(at::Tensor());
  at::Tensor kept, output;
  {
    const at::NoGradGuard no_grad;
    kept = product.kept(input, weight, how.precision);
    const auto compute = [&] {
      output =
          product.forward(kept, LayerWeight(weight, how.layer, how.prepared), bias_or_none, how);
      // The module may go on in place, which autograd refuses for views made without it.
      if (output.is_view()) output = output.variable_data();
    };
    if (branch != nullptr)
      branch->run(compute, {kept});
    else
      compute();
  }
  if (!at::GradMode::is_enabled()) return output;
  if (!want_weight && !autograd::compute_requires_grad(input, bias_or_none)) return output;
  const auto node = std::make_shared<LayerNode<Product>>(
      input, kept, weight, want_weight, bias_or_none, channel, std::move(product), how);
  node->set_next_edges(autograd::collect_next_edges(input, bias_or_none));
  autograd::set_history(output, node);
  return output;
}

}  // namespace

at::Tensor weight_of(const autograd::Node& node) {
  const auto* layer = dynamic_cast<const WeightNode*>(&node);
  return layer == nullptr ? at::Tensor() : layer->weight();
}

at::Tensor wide_gradient(const at::Tensor& gradient, const at::Tensor& scales, std::int64_t layer) {
  if (gradient.scalar_type() != at::kHalf) return gradient.to(at::kFloat);
  return scaled_cast(gradient, at::kFloat, scales, layer, /*divide=*/true,
                     /*record_maximum=*/false);
}

void give_gradient(const at::Tensor& weight, at::Tensor gradient, const LayerArithmetic& how) {
  if (!same_memory_order(gradient, weight))  // what multi-tensor kernels walk side by side
    gradient = at::empty_like(weight, weight.options().dtype(gradient.dtype())).copy_(gradient);
  at::Tensor& held = weight.mutable_grad();
  if (!held.defined() && !how.accumulate) {
    held = std::move(gradient);
    return;
  }
  at::Tensor wide = wide_gradient(gradient, how.scales, how.layer);
  if (held.defined()) wide.add_(wide_gradient(held, how.scales, how.layer));
  held = std::move(wide);
}

at::Tensor convolution_layer(const ConvolutionCall& call, const at::Tensor& weight,
                             const LayerArithmetic& how, Branch* branch) {
  return run_layer(call.input, weight, call.weight.requires_grad(), call.bias, /*channel=*/1,
                   ConvolutionProduct{call.geometry}, how, branch);
}

at::Tensor linear_layer(const LinearCall& call, const at::Tensor& weight,
                        const LayerArithmetic& how) {
  return run_layer(call.input, weight, call.weight.requires_grad(), call.bias, call.input.dim() - 1,
                   LinearProduct{}, how);
}

}  // namespace triaccel
