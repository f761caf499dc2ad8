#include "triaccel/layers/fusion/excitation_fusion.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <utility>

#include "triaccel/layers/convolution/kept_map.h"
#include "triaccel/layers/execution/layer_nodes.h"
#include "triaccel/layers/execution/left_gradient.h"
#include "triaccel/layers/execution/weight_uses.h"
#include "triaccel/ops/norm/squeeze_excite.h"
#include "triaccel/ops/tensors/autograd_node.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;

bool is_one_pixel(const at::Tensor& map) {
  return map.dim() == 4 && map.size(0) > 0 && map.size(2) == 1 && map.size(3) == 1;
}

/// A product of single pixels with a matrix, plus a bias.
bool is_biased_product(const ConvolutionCall& call) {
  const ConvolutionGeometry& g = call.geometry;
  return is_one_pixel(call.input) && is_one_pixel(call.weight) &&
         call.weight.size(1) == call.input.size(1) && call.bias && call.bias->defined() &&
         !g.transposed && g.groups == 1 && g.padding[0] == 0 && g.padding[1] == 0;
}

at::ScalarType gradient_type(Precision precision) {
  return precision == Precision::Bf16 ? at::kBFloat16 : at::kFloat;
}

/// One kernel saves the launches of five; above so many products its plain arithmetic takes longer
/// than tensor cores do, launches included (kernel_rates excitation --torch).
bool pays_as_one_kernel(const at::Tensor& means, const at::Tensor& squeeze) {
  constexpr std::int64_t most_products = 12 << 20;
  return means.size(0) * squeeze.numel() <= most_products;
}

}  // namespace

struct ExcitationFusion::LayerCall {
  Layer layer;
  at::Tensor called;  // the call's own weight, which may be a detached view of the layer's
  at::Tensor bias;
  ConvolutionGeometry geometry;

  bool wants_gradient() const { return called.requires_grad() || bias.requires_grad(); }
  bool reads(const at::Tensor& tensor) const {
    return tensor.is_alias_of(layer.weight) || tensor.is_alias_of(bias);
  }
};

struct ExcitationFusion::Squeezed {
  at::Tensor means;
  LayerCall call;
  bool recorded = at::GradMode::is_enabled();
  at::Tensor values = {};     // of the layer's output; undefined: not computed by itself
  at::Tensor activated = {};  // likewise

  bool wants_gradient() const {
    return recorded && (means.requires_grad() || call.wants_gradient());
  }
  bool reads(const at::Tensor& tensor) const {
    const auto is = [&](const at::Tensor& own) { return own.defined() && tensor.is_alias_of(own); };
    return is(means) || call.reads(tensor) || is(values) || is(activated);
  }
};

class ExcitationFusion::Place final : public autograd::Node {
 public:
  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
  std::string name() const override { return "triaccel::ExcitationPlace"; }
};

ExcitationLayers ExcitationFusion::weights_of(const LayerCall& squeeze, const LayerCall& excite) {
  return {squeeze.layer.weight, squeeze.bias, excite.layer.weight, excite.bias};
}

class ExcitationFusion::Node final : public autograd::Node {
 public:
  Node(const Squeezed& squeezed, const LayerCall& excite, at::Tensor hidden)
      : means_(squeezed.means, squeezed.call.layer.arithmetic.recompute_norms),
        hidden_(std::move(hidden)),
        squeeze_(squeezed.call),
        excite_(excite) {}

  /// Once they have this node behind them.
  void keep_gates(const at::Tensor& gates) {
    gates_ = autograd::SavedVariable(gates, /*is_output=*/true);
  }

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    require_single_backward();
    const at::NoGradGuard no_grad;
    if (!gradients[0].defined()) return autograd::variable_list(num_outputs());
    const at::Tensor gradient = gradients[0].contiguous();
    const Excitation forward = {gates_.unpack(getptr()), hidden_};
    ExcitationGradient backward =
        excitation_gradient(gradient, forward, weights_of(squeeze_, excite_));
    const ExcitationLayers sent = give_parameters(gradient, forward, backward);
    if (!task_should_compute_output(0)) backward.means.reset();
    return {std::move(backward.means), sent.squeeze_bias, sent.excite_bias, sent.squeeze,
            sent.excite};
  }

  void release_variables() override {
    means_.release();
    gates_.reset_data();
    hidden_.reset();
  }
  std::string name() const override { return "triaccel::Excitation"; }

 private:
  bool sends_any() const {
    return std::ranges::any_of(next_edges().begin() + 1, next_edges().end(), [](const auto& edge) {
      return parameter_gradient_along(edge) == ParameterGradient::Sent;
    });
  }

  static ParameterGradient goes(const LayerCall& call, const autograd::Edge& edge) {
    return call.called.requires_grad() ? parameter_gradient_along(edge) : ParameterGradient::None;
  }

  /// Gives the weights their gradients and, where that may be done on the side stream, the biases;
  /// what goes through the graph is returned. Nothing but the update waits for them.
  ExcitationLayers give_parameters(const at::Tensor& gradient, const Excitation& forward,
                                   const ExcitationGradient& backward) {
    const bool squeeze_bias = task_should_compute_output(1);
    const bool excite_bias = task_should_compute_output(2);
    const ParameterGradient squeeze = goes(squeeze_, next_edge(3));
    const ParameterGradient excite = goes(excite_, next_edge(4));
    if (squeeze == ParameterGradient::None && excite == ParameterGradient::None && !squeeze_bias &&
        !excite_bias)
      return {};
    const at::Tensor means = means_.get(getptr());
    ExcitationLayers found;
    const auto find = [&] {
      found = excitation_parameter_gradients(gradient, means, forward, backward,
                                             gradient_type(squeeze_.layer.arithmetic.precision),
                                             gradient_type(excite_.layer.arithmetic.precision));
    };
    SideStream* const side = squeeze_.layer.gradients.side;
    const bool on_side_stream =
        side != nullptr && squeeze_.bias.is_leaf() && excite_.bias.is_leaf() && !sends_any();
    if (!on_side_stream) {
      if (side != nullptr) side->join();  // gradients of other uses may come from there
      find();
    } else {
      std::vector<at::Tensor> reads = {gradient, means, forward.gates, forward.hidden,
                                       backward.hidden};
      for (const at::Tensor& bias : {squeeze_.bias, excite_.bias})
        if (bias.grad().defined()) reads.push_back(bias.grad());  // of another use
      side->run(
          [&] {
            find();
            if (squeeze_bias) add_to_grad(squeeze_.bias, found.squeeze_bias);
            if (excite_bias) add_to_grad(excite_.bias, found.excite_bias);
          },
          std::move(reads));
    }
    if (excite == ParameterGradient::Left)
      give(excite_.layer, next_edge(4), found.excite, on_side_stream);
    if (squeeze == ParameterGradient::Left)
      give(squeeze_.layer, next_edge(3), found.squeeze, on_side_stream);
    if (on_side_stream) {
      if (squeeze_bias) squeeze_.layer.gradients.watch(next_edge(1), squeeze_.bias);
      if (excite_bias) excite_.layer.gradients.watch(next_edge(2), excite_.bias);
      return {};
    }
    ExcitationLayers sent;
    if (squeeze == ParameterGradient::Sent) sent.squeeze = found.squeeze.to(at::kFloat);
    if (excite == ParameterGradient::Sent) sent.excite = found.excite.to(at::kFloat);
    if (squeeze_bias) sent.squeeze_bias = found.squeeze_bias;
    if (excite_bias) sent.excite_bias = found.excite_bias;
    return sent;
  }

  /// One weight after the other: whoever is told of the first may take all that is there.
  static void give(const Layer& layer, const autograd::Edge& edge, const at::Tensor& gradient,
                   bool on_side_stream) {
    layer.gradients.watch(edge, layer.weight);
    if (on_side_stream)
      layer.gradients.give_on_side_stream(layer.weight, [&] { return gradient; }, {});
    else
      layer.gradients.give(layer.weight, gradient);
    layer.gradients.announce(layer.weight, on_side_stream);
  }

  KeptMap means_;
  at::Tensor hidden_;
  autograd::SavedVariable gates_;
  LayerCall squeeze_, excite_;
};

class ExcitationFusion::Operation final : public DeferredOperation {
 public:
  Operation(const ExcitationFusion& fusion, Chain own, NodePtrOf<Place> place)
      : chain(std::move(own)), fusion_(fusion), place_(std::move(place)) {}

  Chain chain;
  bool wants_gradient() const { return place_ != nullptr; }

  bool must_precede(const at::Tensor& tensor, bool writes) const override {
    return writes &&
           (chain.squeezed->reads(tensor) || (chain.excite && chain.excite->reads(tensor)));
  }

  void materialize(const at::Tensor& output) override {
    const at::AutoGradMode as_called(chain.squeezed->recorded);
    const at::Tensor values = fusion_.values_of(chain);
    if (place_) place_->set_next_edges({autograd::impl::gradient_edge(values)});
    output.set_data(values.variable_data());
    // Who writes to the one writes to the other.
    autograd::impl::set_version_counter(output, autograd::impl::version_counter(values));
  }

 private:
  const ExcitationFusion& fusion_;
  NodePtrOf<Place> place_;  // null: no gradient is wanted
};

std::shared_ptr<ExcitationFusion::Operation> ExcitationFusion::fusable(
    const at::Tensor& tensor) const {
  const std::shared_ptr<Operation> found = deferred_.find<Operation>(tensor);
  const bool may = found && !has_gradient_hooks(tensor) &&
                   found->chain.squeezed->recorded == at::GradMode::is_enabled();
  return may ? found : nullptr;
}

at::Tensor ExcitationFusion::defer(const Chain& chain, at::IntArrayRef sizes,
                                   const at::TensorOptions& options) {
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = at::empty(sizes, options);
  }
  NodePtrOf<Place> place;
  const bool excites = chain.excite && chain.excite->wants_gradient();
  if (chain.squeezed->recorded && (chain.squeezed->wants_gradient() || excites)) {
    place = make_node<Place>();
    autograd::set_history(output, place);
  }
  deferred_.add(output, std::make_shared<Operation>(*this, chain, std::move(place)));
  return output;
}

std::optional<at::Tensor> ExcitationFusion::convolution(const ConvolutionCall& call,
                                                        const Layer& layer) {
  if (!fuse_ || !is_biased_product(call) || call.input.scalar_type() != layer.arithmetic.carrier)
    return {};
  const LayerCall now = {
      .layer = layer, .called = call.weight, .bias = *call.bias, .geometry = call.geometry};
  Chain chain;
  if (!deferred_.find<Operation>(call.input)) {
    deferred_.touch(call.input, /*writes=*/false);
    chain.squeezed = std::make_shared<Squeezed>(Squeezed{.means = call.input, .call = now});
  } else {
    const std::shared_ptr<Operation> hidden = fusable(call.input);
    if (!hidden) return {};
    chain = hidden->chain;
    if (!chain.activated || chain.excite || chain.squeezed->call.layer.number == layer.number)
      return {};
    chain.excite = std::make_shared<LayerCall>(now);
  }
  return defer(chain, {call.input.size(0), layer.weight.size(0), 1, 1}, call.input.options());
}

std::optional<at::Tensor> ExcitationFusion::activated(const at::Tensor& input,
                                                      Activation activation, bool in_place) {
  const std::shared_ptr<Operation> squeezed = fusable(input);
  if (!squeezed || squeezed->chain.activated || activation != Activation::Silu) return {};
  if (in_place) {
    squeezed->chain.activated = true;
    return input;
  }
  Chain chain = squeezed->chain;
  chain.activated = true;
  return defer(chain, input.sizes(), input.options());
}

std::optional<at::Tensor> ExcitationFusion::gated(const at::Tensor& input) {
  const std::shared_ptr<Operation> excited = fusable(input);
  if (!excited || !excited->chain.excite) return {};
  const Squeezed& squeezed = *excited->chain.squeezed;
  const LayerCall& squeeze = squeezed.call;
  const LayerCall& excite = *excited->chain.excite;
  const ExcitationLayers layers = weights_of(squeeze, excite);
  if (!computes_excitation(squeezed.means, layers) ||
      !pays_as_one_kernel(squeezed.means, squeeze.layer.weight))
    return {};
  const Excitation forward = excitation(squeezed.means, layers);
  for (const LayerCall* call : {&squeeze, &excite}) uses_.note(call->layer.number, call->bias);
  if (!excited->wants_gradient()) return forward.gates;
  const auto node = make_node<Node>(squeezed, excite, forward.hidden);
  autograd::edge_list edges =
      autograd::collect_next_edges(squeezed.means, squeeze.bias, excite.bias);
  for (const LayerCall* call : {&squeeze, &excite})
    edges.push_back(call->called.requires_grad() ? autograd::impl::gradient_edge(call->layer.weight)
                                                 : autograd::Edge());
  node->set_next_edges(std::move(edges));
  autograd::set_history(forward.gates, node);
  node->keep_gates(forward.gates);
  return forward.gates;
}

at::Tensor ExcitationFusion::computed(const LayerCall& call, const at::Tensor& input) const {
  const std::optional<at::Tensor> bias = call.bias;
  uses_.note(call.layer.number, bias);
  return convolution_layer({input, call.called, bias, call.geometry}, call.layer);
}

at::Tensor ExcitationFusion::values_of(const Chain& chain) const {
  Squeezed& squeezed = *chain.squeezed;
  if (!squeezed.values.defined()) squeezed.values = computed(squeezed.call, squeezed.means);
  if (!chain.activated) return squeezed.values;
  if (!squeezed.activated.defined()) squeezed.activated = at::silu(squeezed.values);
  return chain.excite ? computed(*chain.excite, squeezed.activated) : squeezed.activated;
}

}  // namespace triaccel
