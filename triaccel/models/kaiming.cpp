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

}  // namespace triaccel
