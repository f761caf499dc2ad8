#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

enum class LayerKind {
  Convolution,  // k x k, stride 1
  Points,       // the same linear map for every point
  Linear,
};

enum class Pooling { None, Max2x2, MaxOverPoints };

/// A layer: product, then ReLU and pooling. No biases. Images and points are channels last:
/// [height][width][channel]; weights [out][kernel row][kernel column][in].
struct Layer {
  std::string name = {};
  LayerKind kind = LayerKind::Linear;
  std::int32_t in_channels = 0;  // Linear: all inputs
  std::int32_t out_channels = 0;
  std::int32_t height = 1;  // of the input image; Points: the number of points
  std::int32_t width = 1;
  std::int32_t kernel = 1;
  std::int32_t padding = 0;
  Pooling pooling = Pooling::None;
  bool relu = true;

  std::int32_t depth() const { return kernel * kernel * in_channels; }
  std::int32_t out_height() const { return height + 2 * padding - kernel + 1; }
  std::int32_t out_width() const { return width + 2 * padding - kernel + 1; }
  std::int32_t positions() const { return out_height() * out_width(); }
  std::int32_t pooled_positions() const;
  std::int32_t inputs() const { return height * width * in_channels; }
  std::int32_t outputs() const { return pooled_positions() * out_channels; }
  std::int64_t weight_count() const { return std::int64_t{out_channels} * depth(); }
  bool operator==(const Layer&) const = default;
};

/// Layers in order: convolutions or point layers first, linear ones last, the last without ReLU.
struct Network {
  std::vector<Layer> layers = {};
  std::vector<std::int64_t> offsets = {};  // of each layer's weights among all, multiples of 16
  std::int64_t weight_bytes = 0;           // of all layers, including padding

  std::int32_t layer_count() const { return static_cast<std::int32_t>(layers.size()); }
  std::int32_t feature_layers() const;  // those before the first linear one
  std::int32_t inputs() const { return layers.front().inputs(); }
  std::int32_t classes() const { return layers.back().out_channels; }
  bool operator==(const Network&) const = default;
};

inline constexpr std::int32_t kMostLayers = 16;

/// Checks that consecutive layers match, and computes the weight offsets.
Network make_network(std::vector<Layer> layers);

/// LeNet-5 with "same" convolutions, as in ElasticZO's experiments: 107,550 weights by default.
struct LeNet5Shape {
  std::int32_t image_size = 28;  // a multiple of 4
  std::int32_t channels = 1;
  std::int32_t classes = 10;
  std::int32_t width = 6;
};
Network lenet5(const LeNet5Shape& shape);

/// PointNet without transform nets and batch norm: 813,248 weights by default.
struct PointNetShape {
  std::int32_t points = 1024;
  std::int32_t channels = 3;
  std::int32_t classes = 40;
  std::int32_t width = 64;
};
Network pointnet(const PointNetShape& shape);

/// The row stride of product operands for rows of `depth`.
constexpr std::int32_t padded_depth(std::int32_t depth) { return round_up(depth, kDepthStep); }

}  // namespace triaccel::int8
