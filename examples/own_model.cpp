// Trains a network of your own, under a memory budget, in ten lines.
#include <torch/nn.h>

#include <iostream>

#include "triaccel/triaccel.h"

struct SmallNet : torch::nn::Module {
  torch::nn::Conv2d conv{register_module("conv", torch::nn::Conv2d(3, 16, 5))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(16 * 7 * 7, 10))};

  torch::Tensor forward(const torch::Tensor& images) {
    return out(torch::max_pool2d(torch::relu(conv(images)), 4).flatten(1));
  }
};

int main() {
  triaccel::RunConfig config;
  config.data.name = "synthetic";
  config.train.epochs = 2;
  config.train.batch = 64;
  config.device.budget = "60MiB";
  triaccel::ProgressLine progress(std::cout, {});
  const auto network = triaccel::as_network(std::make_shared<SmallNet>(), "small");
  const auto summary = triaccel::train(network, config, {.sinks = {&progress}});
  std::cout << summary.accuracy << " % with a peak of " << summary.peak_bytes << " bytes\n";
  return summary.accuracy > 90 && summary.peak_bytes <= summary.budget_bytes ? 0 : 1;
}
