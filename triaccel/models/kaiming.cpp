#include "triaccel/models/kaiming.h"

#include <torch/nn.h>

namespace triaccel {

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
