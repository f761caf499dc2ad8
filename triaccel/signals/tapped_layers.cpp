#include "triaccel/signals/tapped_layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/layers/convolution/convolution_parts.h"
#include "triaccel/ops/tensors/autograd_node.h"

namespace triaccel {
namespace {

namespace autograd = torch::autograd;
using Optional = std::optional<at::Tensor>;

/// Allows TF32 for FP32 products and convolutions on a GPU, which is several times as fast. Only
/// for backward, where norm statistics are constants: in forward, a norm over few samples would
/// amplify the error.
class [[nodiscard]] ProductsInTf32 {
 public:
  ProductsInTf32() { set(true, true); }
  ~ProductsInTf32() { set(products_before_, convolutions_before_); }
  ProductsInTf32(const ProductsInTf32&) = delete;
  ProductsInTf32& operator=(const ProductsInTf32&) = delete;

 private:
  static void set(bool products, bool convolutions) {
    at::globalContext().setAllowTF32CuBLAS(products);
    at::globalContext().setAllowTF32CuDNN(convolutions);
  }

  bool products_before_ = at::globalContext().allowTF32CuBLAS();
  bool convolutions_before_ = at::globalContext().allowTF32CuDNN();
};

/// Calls `work` once with the gradient that arrives at a layer's output.
class TapNode final : public autograd::Node {
 public:
  using Work = std::function<at::Tensor(const at::Tensor&, bool)>;
  explicit TapNode(Work work) : work_(std::move(work)) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;
    const Work work = std::exchange(work_, nullptr);  // releases the input it holds
    if (!work || !gradients[0].defined()) return {{}, {}};
    std::optional<ProductsInTf32> in_tf32;
    if (gradients[0].is_cuda()) in_tf32.emplace();  // on a CPU this setting enables BF16
    return {work(gradients[0], task_should_compute_output(0)), {}};
  }

 private:
  Work work_;
};

const std::byte* address(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

Optional detached(const Optional& tensor) {
  return tensor && tensor->defined() ? Optional(tensor->detach()) : Optional();
}

/// A transposed view [out, in] of a weight: a tied matrix.
bool is_transposed(const at::Tensor& view) { return view.stride(0) < view.stride(1); }

/// As computed by layers in FP32: without kernel positions outside the map, with our own kernels if
/// available.
at::Tensor convolved(const at::Tensor& input, const at::Tensor& weight, const Optional& bias,
                     const ConvolutionGeometry& geometry, std::int64_t at_a_time) {
  at::Tensor output = convolution_forward_in_parts(input, {weight, geometry, Precision::Fp32, {}},
                                                   at::kFloat, at_a_time);
  // The module may continue in place, which autograd rejects for views created without grad mode.
  if (output.is_view()) output = output.variable_data();
  if (!bias) return output;
  std::vector<std::int64_t> along_channels(static_cast<std::size_t>(output.dim()), 1);
  along_channels[1] = -1;
  return output.add_(bias->view(along_channels));
}

}  // namespace

TappedLayers::TappedLayers(const std::vector<at::Tensor>& weights, bool with_bias,
                           const GramSize& size)
    : FrozenHooks(/*twice=*/false), with_bias_(with_bias), size_(size), layers_(weights.size()) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& weight = weights[i];
    if (weight.requires_grad())
      spans_[address(weight)] = {address(weight) + weight.nbytes(), static_cast<std::int64_t>(i)};
  }
  root_ = at::zeros({}, weights.front().options().requires_grad(false)).requires_grad_();
}

std::int64_t TappedLayers::layer_of(const at::Tensor& weight) const {
  auto after = spans_.upper_bound(address(weight));
  if (after == spans_.begin()) return -1;
  const auto& [end, layer] = std::prev(after)->second;
  return address(weight) < end ? layer : -1;
}

/// A sample may have several rows, as windows. But positions have one dimension alone, and
/// sequences may come before the samples.
bool TappedLayers::has_samples_first(const at::Tensor& input) const {
  if (input.dim() == 0 || input.size(0) == 0 || input.size(0) % size_.samples != 0) return false;
  if (input.size(0) == size_.samples) return true;
  return input.dim() == 2 || (input.dim() > 2 && input.size(1) != size_.samples);
}

std::int64_t TappedLayers::tappable(const at::Tensor& weight, const at::Tensor& input) const {
  return has_samples_first(input) && at::GradMode::is_enabled() ? layer_of(weight) : -1;
}

at::Tensor TappedLayers::tap(std::int64_t layer, const at::Tensor& input, at::Tensor output,
                             OutputGradient work) {
  ++layers_[static_cast<std::size_t>(layer)].expected;
  const auto node = make_node<TapNode>(std::move(work));
  node->set_next_edges(autograd::collect_next_edges(input, root_));
  autograd::set_history(output, node);
  return output;
}

at::Tensor TappedLayers::convolution(const ConvolutionCall& call) {
  const std::int64_t layer = tappable(call.weight, call.input);
  if (layer < 0) return FrozenHooks::convolution(call);
  const at::Tensor input = call.input.detach(), weight = call.weight.detach();
  const Optional bias = detached(call.bias);
  const Optional measured = bias && with_bias_ && call.bias->requires_grad() ? bias : Optional();
  const ConvolutionGeometry g = call.geometry;
  const std::int64_t at_a_time = samples_at_a_time(input, {weight, g, Precision::Fp32, {}});
  return tap(layer, call.input, convolved(input, weight, bias, g, at_a_time),
             [=, this](const at::Tensor& arriving, bool want_input) {
               // The gradient of a mean is an expanded tensor without its own memory.
               const at::Tensor gradient = arriving.contiguous(input.suggest_memory_format());
               add(layer, weight,
                   convolution_gradients(input, gradient, weight.sizes().slice(2), g, size_));
               add_bias(layer, measured, gradient, 1);
               arrive(layer);
               if (!want_input) return at::Tensor();
               return convolution_backward_in_parts(gradient, input,
                                                    {weight, g, Precision::Fp32, {}},
                                                    {.want_weight = false}, at_a_time)
                   .input;
             });
}

at::Tensor TappedLayers::linear(const LinearCall& call) {
  const std::int64_t layer = call.input.dim() >= 2 ? tappable(call.weight, call.input) : -1;
  if (layer < 0) return FrozenHooks::linear(call);
  const at::Tensor input = call.input.detach(), weight = call.weight.detach();
  const Optional bias = detached(call.bias);
  const Optional measured = bias && with_bias_ && call.bias->requires_grad() ? bias : Optional();
  return tap(layer, call.input, FrozenHooks::linear({input, weight, bias}),
             [=, this](const at::Tensor& gradient, bool want_input) {
               const bool turned = is_transposed(weight);
               add(layer, weight,
                   product_gradients(turned ? input : gradient, turned ? gradient : input, size_));
               add_bias(layer, measured, gradient, gradient.dim() - 1);
               arrive(layer);
               return want_input ? at::matmul(gradient, weight) : at::Tensor();
             });
}

at::Tensor TappedLayers::embedding(const at::Tensor& weight, const at::Tensor& indices,
                                   std::int64_t padding_index, bool scale_grad_by_freq,
                                   bool sparse) {
  const std::int64_t layer = scale_grad_by_freq ? -1 : tappable(weight, indices);
  const at::Tensor table = weight.detach();
  if (layer < 0)
    return FrozenHooks::embedding(weight, indices, padding_index, scale_grad_by_freq, sparse);
  return tap(layer, indices, at::embedding(table, indices, padding_index, false, false),
             [=, this](const at::Tensor& gradient, bool) {
               add(layer, table,
                   table_gradients(indices, gradient, table.size(0), padding_index, size_));
               arrive(layer);
               return at::Tensor();
             });
}

void TappedLayers::add(std::int64_t layer, const at::Tensor& weight, SampleGradients gradients) {
  const Block block = {address(weight), weight.numel(), gradients.slices};
  layers_[static_cast<std::size_t>(layer)].pending[block].push_back(std::move(gradients));
}

void TappedLayers::add_bias(std::int64_t layer, const Optional& bias, const at::Tensor& gradient,
                            std::int64_t channels) {
  if (bias) add(layer, *bias, bias_gradients(gradient, channels, size_));
}

void TappedLayers::arrive(std::int64_t id) {
  Layer& layer = layers_[static_cast<std::size_t>(id)];
  if (++layer.arrived == layer.expected) reduce(layer);
}

void TappedLayers::reduce(Layer& layer) const {
  for (const auto& [block, uses] : layer.pending) {
    at::Tensor gram = gram_of(uses, size_);
    layer.gram = layer.gram.defined() ? layer.gram + gram : std::move(gram);
  }
  layer.pending.clear();
}

std::vector<at::Tensor> TappedLayers::finish() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> grams;
  for (Layer& layer : layers_) {
    reduce(layer);  // uses that do not affect the loss never arrive
    grams.push_back(layer.gram);
  }
  return grams;
}

}  // namespace triaccel
