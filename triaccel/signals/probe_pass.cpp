#include "triaccel/signals/probe_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

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

// The mean: a mask that is divided by its probability, as stochastic depth does, becomes 1.
at::Tensor& FrozenHooks::bernoulli(at::Tensor& mask, double probability,
                                   const std::optional<at::Generator>&) {
  return mask.fill_(probability);
}

at::Tensor probe_loss(const ProbeNetwork& network, const ProbeBatch& batch, FrozenHooks& hooks) {
  const at::AutoGradMode with_graph(true);
  at::Tensor logits;
  {
    const OperatorScope scope(hooks);
    logits = network.forward(batch.inputs);
  }
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(at::kFloat),
                                batch.targets.reshape({-1}), /*weight=*/{}, at::Reduction::Mean,
                                /*ignore_index=*/-100, batch.label_smoothing);
}

UntouchedState::UntouchedState(const std::vector<at::Tensor>& buffers, c10::Device device) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& buffer : buffers) buffers_.emplace_back(buffer, buffer.clone());
  std::vector<c10::Device> devices = {c10::Device(c10::kCPU)};
  if (!device.is_cpu()) devices.push_back(device);
  for (const c10::Device& each : devices) {
    const at::Generator& generator = at::globalContext().defaultGenerator(each);
    generators_.emplace_back(generator, generator.get_state());
  }
}

UntouchedState::~UntouchedState() {
  const at::NoGradGuard no_grad;
  for (auto& [buffer, copy] : buffers_) buffer.copy_(copy, /*non_blocking=*/true);
  for (auto& [generator, state] : generators_) generator.set_state(state);
}

}  // namespace triaccel
