// Your own data, loss and metric: a small U-Net learns to find the disc in an image, under a memory
// budget.
#include <torch/nn.h>

#include <iostream>

#include "triaccel/triaccel.h"

namespace F = torch::nn::functional;

struct UNet : torch::nn::Module {
  torch::nn::Conv2d down{register_module("down", conv(1, 8))};
  torch::nn::Conv2d middle{register_module("middle", conv(8, 16))};
  torch::nn::Conv2d up{register_module("up", conv(16 + 8, 8))};
  torch::nn::Conv2d out{register_module("out", conv(8, 1))};

  static torch::nn::Conv2d conv(int from, int to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
  }
  torch::Tensor forward(const torch::Tensor& images) {
    const auto wide = torch::relu(down(images));
    const auto deep = torch::relu(middle(torch::max_pool2d(wide, 2)));
    const auto back = torch::upsample_nearest2d(deep, wide.sizes().slice(2));
    return out(torch::relu(up(torch::cat({back, wide}, 1))));
  }
};

// Noisy images of a bright disc, and masks of where it is.
std::shared_ptr<triaccel::Dataset> discs(std::int64_t count) {
  const auto at = torch::arange(32.0f), centre = torch::rand({2, count, 1, 1}) * 16 + 8;
  const auto squares = (at.view({1, 32, 1}) - centre[0]).square() + (at - centre[1]).square();
  const auto masks = (squares < 36).to(torch::kFloat).unsqueeze(1);
  return std::make_shared<triaccel::TensorData>(masks + torch::randn_like(masks), masks);
}

int main() {
  torch::manual_seed(1);
  triaccel::RunConfig config;
  config.train.epochs = 4;
  config.train.batch = 32;
  config.train.lr = 0.1;
  config.device.budget = "80MiB";
  const triaccel::OwnTask task{
      .train = discs(512),
      .test = discs(128),
      .loss = [](const auto& out,
                 const auto& masks) { return F::binary_cross_entropy_with_logits(out, masks); },
      .metric = [](const auto& out, const auto& masks) {  // intersection over union
        const auto found = out > 0, wanted = masks > 0.5;
        return (found & wanted).sum() / (found | wanted).sum().clamp_min(1).to(torch::kFloat);
      }};
  const auto network = triaccel::as_network(std::make_shared<UNet>(), "unet");
  triaccel::ProgressLine progress(std::cout, {});
  const auto summary = triaccel::train(network, task, config, {.sinks = {&progress}});
  std::cout << "overlap " << summary.accuracy << " % with a peak of " << summary.peak_bytes
            << " bytes\n";
  return summary.accuracy > 70 && summary.peak_bytes <= summary.budget_bytes ? 0 : 1;
}
