#include <torch/nn.h>

#include <tuple>
#include <vector>

#include "triaccel/models/families.h"
#include "triaccel/models/network.h"

namespace triaccel {
namespace {

namespace nn = torch::nn;

/// The same map for every point: 1x1 convolution, batch norm (or a bias without one), ReLU.
struct PointMap : nn::Module {
  PointMap(std::int64_t in, std::int64_t out, bool norm = true)
      : conv(register_module("conv", nn::Conv1d(nn::Conv1dOptions(in, out, 1).bias(!norm)))) {
    if (norm) bn = register_module("bn", nn::BatchNorm1d(out));
  }

  at::Tensor forward(const at::Tensor& x) { return bn ? bn(conv(x)).relu_() : conv(x).relu_(); }

 private:
  nn::Conv1d conv;
  nn::BatchNorm1d bn = nullptr;
};

// Max pooling over points makes the network permutation-invariant.
at::Tensor over_points(const at::Tensor& x) { return std::get<0>(x.max(2)); }

/// Predicts a channels x channels matrix from the cloud and applies it to every point; initialized
/// to the identity.
struct TransformNet : nn::Module {
  TransformNet(std::int64_t channels, std::int64_t width)
      : channels_(channels),
        map1(register_module("map1", std::make_shared<PointMap>(channels, width))),
        map2(register_module("map2", std::make_shared<PointMap>(width, 2 * width))),
        map3(register_module("map3", std::make_shared<PointMap>(2 * width, 16 * width))),
        fc1(register_module("fc1", nn::Linear(16 * width, 8 * width))),
        fc2(register_module("fc2", nn::Linear(8 * width, 4 * width))),
        fc3(register_module("fc3", nn::Linear(4 * width, channels * channels))) {
    nn::init::zeros_(fc3->weight);
    const torch::NoGradGuard no_gradient;
    fc3->bias.copy_(torch::eye(channels).flatten());
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor cloud = over_points(map3->forward(map2->forward(map1->forward(x))));
    cloud = fc2(fc1(cloud).relu_()).relu_();
    return torch::bmm(fc3(cloud).view({-1, channels_, channels_}), x);
  }

 private:
  std::int64_t channels_;
  std::shared_ptr<PointMap> map1, map2, map3;
  nn::Linear fc1, fc2, fc3;
};

/// PointNet for classification (Qi et al. 2017). By default the paper's "vanilla" form without
/// transform nets: 816,744 parameters for 40 classes, the network of ElasticZO's experiments. The
/// orthogonality penalty on the feature transform is not included.
struct PointNet : nn::Module {
  PointNet(const ModelOptions& options, std::int64_t width) {
    if (options.transform_nets)
      align_points = register_module("align_points",
                                     std::make_shared<TransformNet>(options.input_channels, width));
    map1 = register_module("map1", std::make_shared<PointMap>(options.input_channels, width));
    map2 = register_module("map2", std::make_shared<PointMap>(width, width));
    if (options.transform_nets)
      align_features =
          register_module("align_features", std::make_shared<TransformNet>(width, width));
    map3 = register_module("map3", std::make_shared<PointMap>(width, width));
    map4 = register_module("map4", std::make_shared<PointMap>(width, 2 * width));
    map5 = register_module("map5", std::make_shared<PointMap>(2 * width, 16 * width));
    fc1 = register_module("fc1", nn::Linear(16 * width, 8 * width));
    fc2 = register_module("fc2", nn::Linear(8 * width, 4 * width));
    dropout = register_module("dropout", nn::Dropout(0.3));
    fc3 = register_module("fc3", nn::Linear(4 * width, options.classes));
  }

  at::Tensor forward(at::Tensor x) {
    if (align_points) x = align_points->forward(x);
    x = map2->forward(map1->forward(x));
    if (align_features) x = align_features->forward(x);
    x = over_points(map5->forward(map4->forward(map3->forward(x))));
    x = fc1(x).relu_();
    x = fc2(x).relu_();
    return fc3(dropout(x));
  }

 private:
  std::shared_ptr<TransformNet> align_points, align_features;
  std::shared_ptr<PointMap> map1, map2, map3, map4, map5;
  nn::Linear fc1 = nullptr, fc2 = nullptr, fc3 = nullptr;
  nn::Dropout dropout = nullptr;
};

/// PointNet without norms, dropout and transform nets: the floating-point counterpart of the
/// integer PointNet, with biases. 815,400 parameters for 40 classes.
struct PlainPointNet : nn::Module {
  PlainPointNet(const ModelOptions& options, std::int64_t width) {
    const auto map = [&](const char* name, std::int64_t in, std::int64_t out) {
      maps.push_back(register_module(name, std::make_shared<PointMap>(in, out, /*norm=*/false)));
    };
    map("map1", options.input_channels, width);
    map("map2", width, width);
    map("map3", width, width);
    map("map4", width, 2 * width);
    map("map5", 2 * width, 16 * width);
    fc1 = register_module("fc1", nn::Linear(16 * width, 8 * width));
    fc2 = register_module("fc2", nn::Linear(8 * width, 4 * width));
    fc3 = register_module("fc3", nn::Linear(4 * width, options.classes));
  }

  at::Tensor forward(at::Tensor x) {
    for (const auto& map : maps) x = map->forward(x);
    return fc3(fc2(fc1(over_points(x)).relu_()).relu_());
  }

 private:
  std::vector<std::shared_ptr<PointMap>> maps;
  nn::Linear fc1 = nullptr, fc2 = nullptr, fc3 = nullptr;
};

}  // namespace

Network make_plain_pointnet(const ModelOptions& options) {
  return as_network(std::make_shared<PlainPointNet>(options, width_or(options, 64)), options.name);
}

Network make_pointnet(const ModelOptions& options) {
  return as_network(std::make_shared<PointNet>(options, width_or(options, 64)), options.name);
}

}  // namespace triaccel
