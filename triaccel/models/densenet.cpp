#include <torch/nn.h>

#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/models/families.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"

// DenseNet-121 (Huang et al. 2017) with torchvision's names, shapes and initial weights.

namespace triaccel {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kDenseNetWidth = 64;  // channels of the first layer
constexpr std::int64_t kBottleneck = 4;      // times as many channels before a 3x3 convolution
const std::vector<int> kDepths = {6, 12, 24, 16};  // layers of each block

nn::Conv2d dense_convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride = 1) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Appends `growth` channels to its input.
struct DenseLayer : nn::Module {
  DenseLayer(std::int64_t in, std::int64_t growth)
      : norm1(register_module("norm1", nn::BatchNorm2d(in))),
        conv1(register_module("conv1", dense_convolution(in, kBottleneck * growth, 1))),
        norm2(register_module("norm2", nn::BatchNorm2d(kBottleneck * growth))),
        conv2(register_module("conv2", dense_convolution(kBottleneck * growth, growth, 3))) {}

  at::Tensor forward(const at::Tensor& x) { return conv2(norm2(conv1(norm1(x).relu_())).relu_()); }

 private:
  nn::BatchNorm2d norm1;
  nn::Conv2d conv1;
  nn::BatchNorm2d norm2;
  nn::Conv2d conv2;
};

/// Every layer reads the outputs of all layers before it.
struct DenseBlock : nn::Module {
  DenseBlock(std::int64_t in, std::int64_t growth, int depth) {
    for (int i = 0; i < depth; ++i)
      layers_.push_back(register_module("denselayer" + std::to_string(i + 1),
                                        std::make_shared<DenseLayer>(in + i * growth, growth)));
  }

  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> maps = {x};
    for (const auto& layer : layers_)
      maps.push_back(run_segment(maps, [layer](const std::vector<at::Tensor>& inputs) {
        return layer->forward(torch::cat(inputs, 1));
      }));
    return torch::cat(maps, 1);
  }

 private:
  std::vector<std::shared_ptr<DenseLayer>> layers_;
};

/// Halves channels and resolution between two blocks.
struct Transition : nn::Module {
  explicit Transition(std::int64_t in)
      : norm(register_module("norm", nn::BatchNorm2d(in))),
        conv(register_module("conv", dense_convolution(in, in / 2, 1))) {}

  at::Tensor forward(const at::Tensor& input) {
    return run_segment(input, [this](const at::Tensor& x) {
      return torch::avg_pool2d(conv(norm(x).relu_()), 2, 2);
    });
  }

 private:
  nn::BatchNorm2d norm;
  nn::Conv2d conv;
};

struct Features : nn::Module {
  explicit Features(const ModelOptions& options)
      : channels(width_or(options, kDenseNetWidth)), small_images_(has_cifar_stem(options)) {
    const std::int64_t growth = channels / 2;
    conv0 = register_module(
        "conv0", small_images_ ? dense_convolution(options.input_channels, channels, 3)
                               : dense_convolution(options.input_channels, channels, 7, 2));
    norm0 = register_module("norm0", nn::BatchNorm2d(channels));
    for (std::size_t i = 0; i < kDepths.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      blocks_.push_back(register_module(
          "denseblock" + number, std::make_shared<DenseBlock>(channels, growth, kDepths[i])));
      channels += kDepths[i] * growth;
      if (i + 1 == kDepths.size()) break;
      transitions_.push_back(
          register_module("transition" + number, std::make_shared<Transition>(channels)));
      channels /= 2;
    }
    norm5 = register_module("norm5", nn::BatchNorm2d(channels));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = run_segment(images, [this](const at::Tensor& input) {
      const at::Tensor map = norm0(conv0(input)).relu_();
      return small_images_ ? map : torch::max_pool2d(map, 3, 2, 1);
    });
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      x = blocks_[i]->forward(x);
      if (i < transitions_.size()) x = transitions_[i]->forward(x);
    }
    return norm5(x);
  }

  std::int64_t channels;  // of the result

 private:
  bool small_images_;
  nn::Conv2d conv0 = nullptr;
  nn::BatchNorm2d norm0 = nullptr;
  std::vector<std::shared_ptr<DenseBlock>> blocks_;
  std::vector<std::shared_ptr<Transition>> transitions_;
  nn::BatchNorm2d norm5 = nullptr;
};

struct DenseNet : nn::Module {
  explicit DenseNet(const ModelOptions& options)
      : features(register_module("features", std::make_shared<Features>(options))),
        classifier(register_module("classifier", nn::Linear(features->channels, options.classes))) {
    for (const auto& module : features->modules())
      if (auto* conv = module->as<nn::Conv2d>())
        nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanIn, torch::kReLU);
    nn::init::zeros_(classifier->bias);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor map = features->forward(x).relu_();
    return classifier(torch::adaptive_avg_pool2d(map, {1, 1}).flatten(1));
  }

 private:
  std::shared_ptr<Features> features;
  nn::Linear classifier;
};

}  // namespace

Network make_densenet121(const ModelOptions& options) {
  require(options.width % 2 == 0, "--model", options.name, " needs an even width, got ",
          options.width);
  return as_network(std::make_shared<DenseNet>(options), options.name);
}

}  // namespace triaccel
