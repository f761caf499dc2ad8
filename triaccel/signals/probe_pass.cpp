#include "triaccel/signals/probe_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

at::Tensor FrozenHooks::batch_norm(const BatchNormCall& call) {
  const bool has_running = call.running_mean && call.running_mean->defined();
  if (!call.training && has_running) return OperatorHooks::batch_norm(call);
  std::vector<std::int64_t> all_but_channels(static_cast<std::size_t>(call.input.dim() - 1));
  std::iota(all_but_channels.begin(), all_but_channels.end(), 1);
  all_but_channels.front() = 0;
  const auto [variance, mean] =
      at::var_mean(call.input.detach(), all_but_channels, /*correction=*/at::Scalar(0));
  return at::batch_norm(call.input, call.weight, call.bias, mean, variance, /*training=*/false,
                        /*momentum=*/0.0, call.eps, /*cudnn_enabled=*/false);
}

at::Tensor FrozenHooks::dropout(const at::Tensor& input, double, bool) { return input; }

at::Tensor FrozenHooks::attention(const AttentionCall& call) {
  if (!twice_)
    return OperatorHooks::attention({call.query, call.key, call.value, call.mask, /*dropout=*/0.0,
                                     call.causal, call.scale, call.grouped_queries});
  return std::get<0>(at::_scaled_dot_product_attention_math(
      call.query, call.key, call.value, call.mask, /*dropout_p=*/0.0, call.causal,
      /*dropout_mask=*/{}, call.scale, call.grouped_queries));
}

// The expected value: a mask divided by its probability, as in stochastic depth, becomes 1.
at::Tensor& FrozenHooks::bernoulli(at::Tensor& mask, double probability,
                                   const std::optional<at::Generator>&) {
  return mask.fill_(probability);
}

at::Tensor probe_loss(const ProbeNetwork& network, const ProbeBatch& batch, FrozenHooks& hooks) {
  const at::AutoGradMode with_graph(true);
  if (batch.own_loss) {
    const OperatorScope scope(hooks);
    return batch.own_loss().to(at::kFloat);
  }
  at::Tensor logits;
  {
    const OperatorScope scope(hooks);
    logits = network.forward(batch.inputs);
  }
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(at::kFloat),
                                batch.targets.reshape({-1}), /*weight=*/{}, at::Reduction::Mean,
                                /*ignore_index=*/-100, batch.label_smoothing);
}

namespace {

/// One launch per type, since there are dozens of small tensors.
void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> by_type;
  for (std::size_t i = 0; i < to.size(); ++i) {
    auto& [targets, sources] = by_type[to[i].scalar_type()];
    targets.push_back(to[i]);
    sources.push_back(from[i]);
  }
  for (const auto& [type, tensors] : by_type)
    at::_foreach_copy_(tensors.first, tensors.second, /*non_blocking=*/true);
}

}  // namespace

UntouchedState::UntouchedState(const std::vector<at::Tensor>& buffers, c10::Device device,
                               bool generators)
    : buffers_(writable_among(buffers)) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& buffer : buffers_) copies_.push_back(at::empty_like(buffer));
  copy_all(copies_, buffers_);
  if (!generators) return;
  std::vector<c10::Device> devices = {c10::Device(c10::kCPU)};
  if (!device.is_cpu()) devices.push_back(device);
  for (const c10::Device& each : devices) {
    const at::Generator& generator = at::globalContext().defaultGenerator(each);
    generators_.emplace_back(generator, generator.get_state());
  }
}

bool UntouchedState::drew() const {
  return std::any_of(generators_.begin(), generators_.end(), [](const auto& kept) {
    return !at::equal(kept.first.get_state(), kept.second);
  });
}

UntouchedState::~UntouchedState() {
  const at::NoGradGuard no_grad;
  copy_all(buffers_, copies_);
  for (auto& [generator, state] : generators_) generator.set_state(state);
}

}  // namespace triaccel
