#include "triaccel/models/families.h"

#include <torch/nn.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {

at::Tensor self_attention(const at::Tensor& packed, const AttentionOptions& options) {
  const std::int64_t batch = packed.size(0), tokens = packed.size(1), width = packed.size(2) / 3;
  const std::vector<at::Tensor> parts =
      packed.view({batch, tokens, 3, options.heads, width / options.heads})
          .permute({2, 0, 3, 1, 4})
          .unbind(0);
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                          options.dropout, options.causal)
      .transpose(1, 2)
      .reshape({batch, tokens, width});
}

std::int64_t heads_for(std::int64_t width) {
  constexpr std::int64_t kHeadChannels = 64;
  const std::int64_t heads = std::max<std::int64_t>(1, width / kHeadChannels);
  require(width % heads == 0, "--model", "width ", width, " is not divisible by ", heads,
          " attention heads; use a multiple of ", kHeadChannels);
  return heads;
}

void initialise_convolutions(torch::nn::Module& network) {
  for (const auto& module : network.modules(/*include_self=*/false)) {
    auto* convolution = module->as<torch::nn::Conv2d>();
    if (!convolution) continue;
    torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanOut, torch::kReLU);
    if (convolution->bias.defined()) torch::nn::init::zeros_(convolution->bias);
  }
}

bool initialise_without_norms(torch::nn::Module& network) {
  const auto modules = network.modules(/*include_self=*/false);
  for (const auto& module : modules)
    if (module->name().find("Norm") != std::string::npos) return false;
  const auto initialise = [](const at::Tensor& weight, const at::Tensor& bias) {
    torch::nn::init::kaiming_normal_(weight, 0.0, torch::kFanIn, torch::kReLU);
    if (bias.defined()) torch::nn::init::zeros_(bias);
  };
  for (const auto& module : modules) {
    if (auto* layer = module->as<torch::nn::Conv1d>()) initialise(layer->weight, layer->bias);
    if (auto* layer = module->as<torch::nn::Conv2d>()) initialise(layer->weight, layer->bias);
    if (auto* layer = module->as<torch::nn::Linear>()) initialise(layer->weight, layer->bias);
  }
  return true;
}

}  // namespace triaccel
