#include <torch/nn.h>

#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/models/families.h"
#include "triaccel/models/network.h"
#include "triaccel/ops/tensors/segment.h"

// VGG-16 with batch norm (Simonyan and Zisserman 2014) with torchvision's names, shapes and initial
// weights.

namespace triaccel {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kVggWidth = 64;
constexpr std::int64_t kHidden = 4096;  // of the classifier
constexpr std::int64_t kSide = 7;       // of its input
constexpr std::int64_t kSmallestImage = 32;

const std::vector<std::vector<std::int64_t>> kVggStages = {
    {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};

nn::ReLU rectifier() { return nn::ReLU(nn::ReLUOptions(/*inplace=*/true)); }

struct Vgg : nn::Module {
  explicit Vgg(const ModelOptions& options) : side_(has_cifar_stem(options) ? 1 : kSide) {
    const std::int64_t width = width_or(options, kVggWidth);
    const auto scaled = [width](std::int64_t channels) { return channels * width / kVggWidth; };
    std::int64_t channels = options.input_channels;
    for (const auto& stage : kVggStages) {
      for (const std::int64_t out : stage) {
        features->push_back(
            nn::Conv2d(nn::Conv2dOptions(channels, scaled(out), /*kernel=*/3).padding(1)));
        features->push_back(nn::BatchNorm2d(scaled(out)));
        features->push_back(rectifier());
        channels = scaled(out);
      }
      features->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)));
      stage_ends_.push_back(features->size());
    }
    register_module("features", features);
    const std::int64_t hidden = scaled(kHidden);
    if (side_ > 1) {
      classifier->push_back(nn::Linear(channels * side_ * side_, hidden));
      classifier->push_back(rectifier());
      classifier->push_back(nn::Dropout());
      classifier->push_back(nn::Linear(hidden, hidden));
      classifier->push_back(rectifier());
      classifier->push_back(nn::Dropout());
      classifier->push_back(nn::Linear(hidden, options.classes));
    } else {
      classifier->push_back(nn::Linear(channels, options.classes));
    }
    register_module("classifier", classifier);
    initialise_convolutions(*this);
    for (const auto& module : classifier->children())
      if (auto* linear = module->as<nn::Linear>()) {
        nn::init::normal_(linear->weight, 0.0, 0.01);
        nn::init::zeros_(linear->bias);
      }
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor map = input;
    std::size_t first = 0;
    for (const std::size_t end : stage_ends_) {
      map = run_segment(map, [this, first, end](at::Tensor x) {
        for (std::size_t i = first; i < end; ++i) x = (features->begin() + i)->forward(x);
        return x;
      });
      first = end;
    }
    return classifier->forward(torch::adaptive_avg_pool2d(map, {side_, side_}).flatten(1));
  }

 private:
  std::int64_t side_;
  std::vector<std::size_t> stage_ends_;  // in `features`
  nn::Sequential features, classifier;
};

}  // namespace

Network make_vgg16_bn(const ModelOptions& options) {
  require(options.image_size >= kSmallestImage, "--model", options.name,
          " needs images of at least ", kSmallestImage, " pixels, got ", options.image_size);
  return as_network(std::make_shared<Vgg>(options), options.name);
}

}  // namespace triaccel
