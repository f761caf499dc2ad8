#include "triaccel/signals/fisher_gram.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
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
  const std::int64_t samples = batch.samples();
  TappedLayers taps(network.weights, options.whole_layer,
                    {.samples = samples,
                     .workspace_bytes = options.workspace_bytes,
                     .workspace_per_map = options.workspace_per_map});
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

FisherReplay::FisherReplay(ProbeNetwork network, const CurvatureOptions& options,
                           c10::Device device)
    : network_(std::move(network)), options_(options), device_(device) {
  products_ =
      at::zeros({static_cast<std::int64_t>(network_.weights.size()), options.batch, options.batch},
                at::TensorOptions(at::kFloat).device(device));
}

void FisherReplay::enqueue(const ProbeBatch& batch, bool captured) {
  // The generator state cannot be read during capture.
  const UntouchedState state(network_.buffers, device_, /*generators=*/!captured);
  const std::vector<at::Tensor> products = fisher_products(network_, batch, options_);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> found;
  measured_.clear();
  for (std::size_t i = 0; i < products.size(); ++i)
    if (products[i].defined()) {
      found.push_back(products[i]);
      measured_.push_back(i);
    }
  if (found.empty()) return;
  at::Tensor kept = products_.narrow(0, 0, static_cast<std::int64_t>(found.size()));
  at::stack_out(kept, found);
}

std::future<std::vector<LayerCurvature>> FisherReplay::read() {
  const auto count = static_cast<std::int64_t>(measured_.size());
  at::Tensor host = at::empty({count, options_.batch, options_.batch},
                              at::TensorOptions(at::kFloat).pinned_memory(true));
  host.copy_(products_.narrow(0, 0, count), /*non_blocking=*/true);
  const auto copied = std::make_shared<c10::Event>(device_.type());
  copied->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return std::async(std::launch::async, [host = std::move(host), copied, measured = measured_,
                                         layers = network_.weights.size(), top = options_.top] {
    copied->synchronize();
    std::vector<LayerCurvature> all(layers);
    if (measured.empty()) return all;
    std::vector<LayerCurvature> found = curvature_from(host, top);
    for (std::size_t i = 0; i < measured.size(); ++i) all[measured[i]] = std::move(found[i]);
    return all;
  });
}

}  // namespace triaccel
