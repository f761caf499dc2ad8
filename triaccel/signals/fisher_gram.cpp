#include "triaccel/signals/fisher_gram.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>

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

std::vector<LayerCurvature> fisher_curvature(const ProbeNetwork& network, const ProbeBatch& batch,
                                             const CurvatureOptions& options) {
  const std::int64_t samples = batch.inputs.size(0);
  TappedLayers taps(network.weights, options.whole_layer,
                    {.samples = samples, .workspace_bytes = options.workspace_bytes});
  {
    const at::Tensor loss = probe_loss(network, batch, taps);
    // The mean's gradient, times the number of samples, is the samples' own gradients side by side.
    if (loss.requires_grad())
      torch::autograd::grad({loss}, {taps.root()}, {at::full_like(loss, samples)},
                            /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  }
  std::vector<at::Tensor> measured;
  std::vector<std::size_t> ids;
  const std::vector<at::Tensor> grams = taps.finish();
  for (std::size_t i = 0; i < grams.size(); ++i)
    if (grams[i].defined()) {
      measured.push_back(grams[i]);
      ids.push_back(i);
    }
  std::vector<LayerCurvature> layers(grams.size());
  if (measured.empty()) return layers;
  // One copy to the host, the only wait. Eigenvalues are taken there: in FP64, and without the
  // device memory that a solver library keeps for itself.
  at::Tensor products = at::stack(measured).cpu().to(at::kDouble);
  const at::Tensor finite = products.isfinite().all(-1).all(-1);
  products.masked_fill_(finite.logical_not().view({-1, 1, 1}), 0.0);
  const at::Tensor eigenvalues =
      at::linalg_eigvalsh(products / static_cast<double>(samples)).contiguous();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) * samples;
    if (finite.const_data_ptr<bool>()[i])
      layers[ids[i]] =
          curvature_of(products.const_data_ptr<double>() + row * samples,
                       eigenvalues.const_data_ptr<double>() + row, samples, options.top);
  }
  return layers;
}

}  // namespace triaccel
