#include "triaccel/signals/fisher_replay.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <utility>

#include "triaccel/signals/fisher_gram.h"

namespace triaccel {

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
