#include "triaccel/signals/fisher_gram.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "triaccel/signals/tapped_layers.h"

namespace triaccel {
namespace {

/// `products` of one layer's sample gradients, <g_i, g_j>, samples x samples on the host, and the
/// eigenvalues of products / samples, ascending.
LayerCurvature curvature_of(const double* products, const double* eigenvalues, std::int64_t samples,
                            std::int64_t top) {
  double own = 0;
  for (std::int64_t i = 0; i < samples; ++i) own += products[i * (samples + 1)];
  const double all = std::accumulate(products, products + samples * samples, 0.0);
  LayerCurvature layer;
  for (std::int64_t i = 1; i <= std::min(top, samples); ++i)
    layer.eigenvalues.push_back(std::max(0.0, eigenvalues[samples - i]));  // negative by rounding
  if (samples > 1) {
    const auto count = static_cast<double>(samples);
    layer.gradient_noise = (own - all / count) / (count - 1);
    layer.gradient_signal = (all - own) / (count * (count - 1));
  }
  return layer;
}

}  // namespace

std::vector<at::Tensor> fisher_products(const ProbeNetwork& network, const ProbeBatch& batch,
                                        const CurvatureOptions& options) {
  const std::int64_t samples = batch.inputs.size(0);
  TappedLayers taps(network.weights, options.whole_layer,
                    {.samples = samples, .workspace_bytes = options.workspace_bytes});
  const at::Tensor loss = probe_loss(network, batch, taps);
  // The gradient of the mean loss times the number of samples gives the per-sample gradients.
  if (loss.requires_grad())
    torch::autograd::grad({loss}, {taps.root()}, {at::full_like(loss, samples)},
                          /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  return taps.finish();
}

std::vector<LayerCurvature> curvature_from(const at::Tensor& products, std::int64_t top) {
  const std::int64_t samples = products.size(-1);
  const at::Tensor finite = products.isfinite().all(-1).all(-1);
  const at::Tensor sound =
      products.to(at::kDouble).masked_fill(finite.logical_not().view({-1, 1, 1}), 0.0);
  const at::Tensor eigenvalues =
      at::linalg_eigvalsh(sound / static_cast<double>(samples)).contiguous();
  std::vector<LayerCurvature> layers(static_cast<std::size_t>(products.size(0)));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) * samples;
    if (finite.const_data_ptr<bool>()[i])
      layers[i] = curvature_of(sound.const_data_ptr<double>() + row * samples,
                               eigenvalues.const_data_ptr<double>() + row, samples, top);
  }
  return layers;
}

std::vector<LayerCurvature> fisher_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                             const CurvatureOptions& options) {
  const std::vector<at::Tensor> products = fisher_products(network, batch, options);
  std::vector<at::Tensor> measured;
  for (const at::Tensor& of_layer : products)
    if (of_layer.defined()) measured.push_back(of_layer);
  std::vector<LayerCurvature> layers(products.size());
  if (measured.empty()) return layers;
  // One copy to the host, the only synchronization. Eigenvalues are computed there: in FP64, and
  // without the device memory of a solver library.
  std::vector<LayerCurvature> found = curvature_from(at::stack(measured).cpu(), options.top);
  for (std::size_t i = 0, next = 0; i < products.size(); ++i)
    if (products[i].defined()) layers[i] = std::move(found[next++]);
  return layers;
}

}  // namespace triaccel
