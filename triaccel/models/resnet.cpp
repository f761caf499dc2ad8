#include <torch/nn.h>

#include <array>
#include <string>
#include <vector>

#include "triaccel/models/families.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"

// Residual networks (He et al. 2015) with torchvision's names, shapes and initial weights.

namespace triaccel {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                       std::int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// The shortcut: 1x1 where the shape changes, else null.
nn::Sequential projection(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && in == out) return nullptr;
  return nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out));
}

struct BasicBlock : nn::Module {
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t planes, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, planes, 3, stride))),
        bn1(register_module("bn1", nn::BatchNorm2d(planes))),
        conv2(register_module("conv2", convolution(planes, planes, 3, 1))),
        bn2(register_module("bn2", nn::BatchNorm2d(planes))),
        downsample(projection(in, planes, stride)) {
    if (downsample) register_module("downsample", downsample);
  }

  at::Tensor forward(const at::Tensor& input) {
    return run_segment(input, [this](const at::Tensor& x) {
      at::Tensor out = bn1(conv1(x)).relu_();
      out = bn2(conv2(out));
      out += downsample ? downsample->forward(x) : x;
      return out.relu_();
    });
  }

 private:
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Sequential downsample;
};

/// The stride is in the 3x3 convolution, as in torchvision ("ResNet v1.5").
struct Bottleneck : nn::Module {
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t planes, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, planes, 1, 1))),
        bn1(register_module("bn1", nn::BatchNorm2d(planes))),
        conv2(register_module("conv2", convolution(planes, planes, 3, stride))),
        bn2(register_module("bn2", nn::BatchNorm2d(planes))),
        conv3(register_module("conv3", convolution(planes, planes * kExpansion, 1, 1))),
        bn3(register_module("bn3", nn::BatchNorm2d(planes * kExpansion))),
        downsample(projection(in, planes * kExpansion, stride)) {
    if (downsample) register_module("downsample", downsample);
  }

  at::Tensor forward(const at::Tensor& input) {
    return run_segment(input, [this](const at::Tensor& x) {
      at::Tensor out = bn1(conv1(x)).relu_();
      out = bn2(conv2(out)).relu_();
      out = bn3(conv3(out));
      out += downsample ? downsample->forward(x) : x;
      return out.relu_();
    });
  }

 private:
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  nn::Sequential downsample;
};

using Depths = std::array<std::int64_t, 4>;  // blocks in each stage

template <class Block>
struct ResNet : nn::Module {
  ResNet(const ModelOptions& options, const Depths& depths)
      : small_images_(has_cifar_stem(options)) {
    std::int64_t channels = width_or(options, 64);
    conv1 = register_module("conv1", small_images_
                                         ? convolution(options.input_channels, channels, 3, 1)
                                         : convolution(options.input_channels, channels, 7, 2));
    bn1 = register_module("bn1", nn::BatchNorm2d(channels));
    std::int64_t planes = channels;
    for (std::size_t stage = 0; stage < depths.size(); ++stage, planes *= 2) {
      nn::Sequential blocks;
      for (std::int64_t i = 0; i < depths[stage]; ++i) {
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks->push_back(std::make_shared<Block>(channels, planes, stride));
        channels = planes * Block::kExpansion;
      }
      stages_.push_back(register_module("layer" + std::to_string(stage + 1), blocks));
    }
    fc = register_module("fc", nn::Linear(channels, options.classes));
    initialise_convolutions(*this);
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = run_segment(images, [this](const at::Tensor& input) {
      const at::Tensor map = bn1(conv1(input)).relu_();
      return small_images_ ? map : torch::max_pool2d(map, 3, 2, 1);
    });
    for (nn::Sequential& stage : stages_) x = stage->forward(x);
    return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  bool small_images_;
  nn::Conv2d conv1 = nullptr;
  nn::BatchNorm2d bn1 = nullptr;
  std::vector<nn::Sequential> stages_;
  nn::Linear fc = nullptr;
};

template <class Block>
Network make_resnet(const ModelOptions& options, const Depths& depths) {
  return as_network(std::make_shared<ResNet<Block>>(options, depths), options.name);
}

}  // namespace

Network make_resnet18(const ModelOptions& options) {
  return make_resnet<BasicBlock>(options, {2, 2, 2, 2});
}

Network make_resnet50(const ModelOptions& options) {
  return make_resnet<Bottleneck>(options, {3, 4, 6, 3});
}

}  // namespace triaccel
