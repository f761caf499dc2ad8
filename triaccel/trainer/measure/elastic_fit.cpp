#include "triaccel/trainer/measure/elastic_fit.h"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

/// The weights, in memory that no budget counts; put back when the scope ends. Rehearsing rounds
/// those of layers that it trains by zeroth-order estimates.
class KeptWeights {
 public:
  explicit KeptWeights(const Network& network) : weights_(network.module->parameters()) {
    for (const at::Tensor& weight : weights_) {
      std::vector<std::byte>& bytes = bytes_.emplace_back(weight.nbytes());
      as_tensor(bytes, weight).copy_(weight.detach());
    }
  }
  ~KeptWeights() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i].copy_(as_tensor(bytes_[i], weights_[i]));
  }
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

 private:
  static at::Tensor as_tensor(std::vector<std::byte>& bytes, const at::Tensor& like) {
    return torch::from_blob(bytes.data(), like.sizes(), like.scalar_type());
  }

  std::vector<at::Tensor> weights_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace

void fit_boundary(RunParts& parts, const RunConfig& config) {
  const KeptWeights kept(parts.network);
  const std::int64_t batch =
      std::min(parts.plan.batch_size, static_cast<std::int64_t>(parts.data.training_ids.size()));
  const at::Tensor ids = at::arange(batch).to(parts.on.device);
  const GatherOptions gather{.augment = augments(config),
                             .seed = static_cast<std::uint64_t>(config.train.seed)};
  const auto planned = [&](const BoundaryFit& fit) {
    StepPlan plan = parts.plan;
    plan.micro_batch_size = fit.micro_batch;
    set_boundary(plan, fit.bp_layers);
    return plan;
  };
  const auto fits = [&](const BoundaryFit& fit) {
    parts.on.gauge.release_cache();
    try {
      parts.runner->rehearse(planned(fit), *parts.data.train, ids, gather);
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  };
  const auto found = search_boundary(parts.network.layers.size(), parts.plan.micro_batch_size,
                                     smallest_pass_of(parts.network), fits);
  parts.plan = planned(found.value_or(BoundaryFit{0, smallest_pass_of(parts.network)}));
  parts.on.gauge.release_cache();
  parts.on.gauge.reset_peak();
}

}  // namespace triaccel
