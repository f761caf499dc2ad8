#include <torch/nn.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "triaccel/models/families.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"

// EfficientNet-B0 (Tan and Le 2019) with torchvision's names, shapes and, up to the classifier's
// scale, initial weights.

namespace triaccel {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kStemChannels = 32;
constexpr double kStochasticDepth = 0.2;  // of the last block; grows linearly from 0
constexpr double kHeadDropout = 0.2;
constexpr std::int64_t kImageNetClasses = 1000;

/// A sequence that can be nested in a sequence: nn::Sequential's forward is a template, which
/// nn::AnyModule cannot hold.
struct Chain : nn::SequentialImpl {
  at::Tensor forward(const at::Tensor& x) { return nn::SequentialImpl::forward(x); }
};

/// One that is a segment by itself.
struct SegmentChain : Chain {
  at::Tensor forward(const at::Tensor& input) {
    return run_segment(input, [this](const at::Tensor& x) { return Chain::forward(x); });
  }
};

struct Shape {
  std::int64_t kernel = 1, stride = 1, groups = 1;
};

enum class Activation { None, Silu };

template <typename Sequence = Chain>
std::shared_ptr<Sequence> convolution_norm(std::int64_t in, std::int64_t out, Shape shape,
                                           Activation activation) {
  auto chain = std::make_shared<Sequence>();
  chain->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, shape.kernel)
                                  .stride(shape.stride)
                                  .padding(shape.kernel / 2)
                                  .groups(shape.groups)
                                  .bias(false)));
  chain->push_back(nn::BatchNorm2d(out));
  if (activation == Activation::Silu) chain->push_back(nn::SiLU());
  return chain;
}

/// Squeeze-and-excitation (Hu et al. 2018).
struct SqueezeExcitation : nn::Module {
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed)
      : fc1(register_module("fc1", nn::Conv2d(nn::Conv2dOptions(channels, squeezed, 1)))),
        fc2(register_module("fc2", nn::Conv2d(nn::Conv2dOptions(squeezed, channels, 1)))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor mean = torch::adaptive_avg_pool2d(x, {1, 1});
    return torch::sigmoid(fc2(torch::silu(fc1(mean)))) * x;
  }

 private:
  nn::Conv2d fc1, fc2;
};

/// Stochastic depth: the factor that drops a whole branch for a random fraction of the samples of
/// `like` (Huang et al. 2016).
at::Tensor stochastic_depth(const at::Tensor& like, double probability) {
  const double survival = 1.0 - probability;
  const at::Tensor kept = torch::empty({like.size(0), 1, 1, 1}, like.options());
  return kept.bernoulli_(survival).div_(survival);
}

struct InvertedResidual : nn::Module {
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t expand, Shape shape,
                   double drop_probability)
      : residual_(shape.stride == 1 && in == out), drop_probability_(drop_probability) {
    const std::int64_t expanded = in * expand;
    block = register_module("block", std::make_shared<Chain>());
    if (expand != 1) block->push_back(convolution_norm(in, expanded, {}, Activation::Silu));
    shape.groups = expanded;
    block->push_back(convolution_norm(expanded, expanded, shape, Activation::Silu));
    block->push_back(
        std::make_shared<SqueezeExcitation>(expanded, std::max<std::int64_t>(1, in / 4)));
    block->push_back(convolution_norm(expanded, out, {}, Activation::None));
  }

  at::Tensor forward(const at::Tensor& input) {
    std::vector<at::Tensor> inputs = {input};
    // Drawn outside the segment, which may be computed twice.
    if (residual_ && drop_probability_ > 0 && is_training())
      inputs.push_back(stochastic_depth(input, drop_probability_));
    return run_segment(inputs, [this](const std::vector<at::Tensor>& in) {
      at::Tensor out = block->forward(in[0]);
      if (!residual_) return out;
      if (in.size() > 1) out = out * in[1];
      out += in[0];
      return out;
    });
  }

 private:
  bool residual_;
  double drop_probability_;
  std::shared_ptr<Chain> block;
};

struct Stage {
  std::int64_t expand, kernel, stride, out, blocks;
};

const std::vector<Stage> kEfficientNetStages = {
    {1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
    {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

/// Scales channels with the stem's width, rounded to a multiple of 8 but never by more than 10 %
/// down, as in the paper.
std::int64_t scaled(std::int64_t channels, std::int64_t width) {
  const double wanted = static_cast<double>(channels * width) / kStemChannels;
  const auto rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4.0) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + 8 : rounded;
}

struct EfficientNet : nn::Module {
  explicit EfficientNet(const ModelOptions& options) {
    const std::int64_t width = width_or(options, kStemChannels);
    std::int64_t channels = scaled(kStemChannels, width);
    features = register_module("features", std::make_shared<Chain>());
    features->push_back(convolution_norm<SegmentChain>(
        options.input_channels, channels, {.kernel = 3, .stride = 2}, Activation::Silu));
    std::int64_t all_blocks = 0, block = 0;
    for (const Stage& stage : kEfficientNetStages) all_blocks += stage.blocks;
    for (const Stage& stage : kEfficientNetStages) {
      auto chain = std::make_shared<Chain>();
      for (std::int64_t i = 0; i < stage.blocks; ++i, ++block) {
        const double drop =
            kStochasticDepth * static_cast<double>(block) / static_cast<double>(all_blocks);
        const Shape shape = {.kernel = stage.kernel, .stride = i == 0 ? stage.stride : 1};
        const std::int64_t out = scaled(stage.out, width);
        chain->push_back(
            std::make_shared<InvertedResidual>(channels, out, stage.expand, shape, drop));
        channels = out;
      }
      features->push_back(std::move(chain));
    }
    features->push_back(
        convolution_norm<SegmentChain>(channels, 4 * channels, {}, Activation::Silu));
    classifier = register_module(
        "classifier",
        nn::Sequential(nn::Dropout(kHeadDropout), nn::Linear(4 * channels, options.classes)));
    initialise_convolutions(*this);
    auto& head = classifier->at<nn::LinearImpl>(1);
    // torchvision's rule, 1 / sqrt(classes), suits ImageNet. With ten classes its initial logits
    // would be ten times as large, with destabilizing gradients.
    const double bound =
        1.0 / std::sqrt(static_cast<double>(std::max(options.classes, kImageNetClasses)));
    nn::init::uniform_(head.weight, -bound, bound);
    nn::init::zeros_(head.bias);
  }

  at::Tensor forward(const at::Tensor& x) {
    return classifier->forward(torch::adaptive_avg_pool2d(features->forward(x), {1, 1}).flatten(1));
  }

 private:
  std::shared_ptr<Chain> features;
  nn::Sequential classifier = nullptr;
};

}  // namespace

Network make_efficientnet_b0(const ModelOptions& options) {
  return as_network(std::make_shared<EfficientNet>(options), options.name);
}

}  // namespace triaccel
