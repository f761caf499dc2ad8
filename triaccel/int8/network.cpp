#include "triaccel/int8/network.h"

#include <utility>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {
namespace {

void check_layer(const Layer& layer, bool last) {
  const char* who = "make_network";
  require(layer.in_channels > 0 && layer.out_channels > 0 && layer.height > 0 && layer.width > 0,
          who, "layer '", layer.name, "' has an empty dimension");
  require(layer.depth() <= kMostDepth, who, "layer '", layer.name, "' sums ", layer.depth(),
          " products, more than the ", kMostDepth, " that fit an int32");
  require(layer.kind == LayerKind::Convolution || (layer.kernel == 1 && layer.padding == 0), who,
          "layer '", layer.name, "' has a kernel but is not a convolution");
  require(layer.out_height() > 0 && layer.out_width() > 0, who, "layer '", layer.name,
          "' has a kernel larger than its image");
  require(layer.kind != LayerKind::Linear || (layer.height == 1 && layer.width == 1), who,
          "linear layer '", layer.name, "' must have height and width 1");
  require(layer.pooling != Pooling::Max2x2 ||
              (layer.kind == LayerKind::Convolution && layer.out_height() % 2 == 0 &&
               layer.out_width() % 2 == 0),
          who, "layer '", layer.name,
          "' uses 2x2 pooling and must be a convolution with even output size, got ",
          layer.out_height(), " x ", layer.out_width());
  require(layer.pooling != Pooling::MaxOverPoints || layer.kind == LayerKind::Points, who,
          "layer '", layer.name, "' has no points to pool over");
  require(layer.kind != LayerKind::Points || (layer.width == 1 && layer.height <= 65535), who,
          "layer '", layer.name, "' must have width 1 and at most 65535 points");
  require(!last || (layer.kind == LayerKind::Linear && !layer.relu), who, "the last layer '",
          layer.name, "' must be linear, without ReLU");
}

}  // namespace

std::int32_t Layer::pooled_positions() const {
  switch (pooling) {
    case Pooling::None:
      return positions();
    case Pooling::Max2x2:
      return positions() / 4;
    case Pooling::MaxOverPoints:
      return 1;
  }
  return 0;
}

std::int32_t Network::feature_layers() const {
  std::int32_t count = 0;
  while (layers[static_cast<std::size_t>(count)].kind != LayerKind::Linear) ++count;
  return count;
}

Network make_network(std::vector<Layer> layers) {
  require(!layers.empty() && layers.size() <= static_cast<std::size_t>(kMostLayers), "make_network",
          "1 to ", kMostLayers, " layers, got ", layers.size());
  Network network;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    check_layer(layer, i + 1 == layers.size());
    if (i > 0) {
      const Layer& before = layers[i - 1];
      require(before.outputs() == layer.inputs(), "make_network", "layer '", layer.name, "' takes ",
              layer.inputs(), " values, but '", before.name, "' produces ", before.outputs());
      require(layer.kind == LayerKind::Linear || before.kind == layer.kind, "make_network",
              "layer '", layer.name, "' follows a layer of another kind");
      require(layer.kind == LayerKind::Linear || before.out_channels == layer.in_channels,
              "make_network", "layer '", layer.name, "' takes ", layer.in_channels,
              " channels, but '", before.name, "' produces ", before.out_channels);
    }
    network.offsets.push_back(network.weight_bytes);
    network.weight_bytes += round_up(layer.weight_count(), kDepthStep);
  }
  network.layers = std::move(layers);
  return network;
}

Network lenet5(const LeNet5Shape& shape) {
  require(shape.image_size >= 4 && shape.image_size % 4 == 0, "lenet5",
          "image_size must be a multiple of 4, got ", shape.image_size);
  const std::int32_t half = shape.image_size / 2;
  const std::int32_t wide = 16 * shape.width / 6;
  const auto convolution = [](const char* name, std::int32_t in, std::int32_t out,
                              std::int32_t side) {
    return Layer{.name = name,
                 .kind = LayerKind::Convolution,
                 .in_channels = in,
                 .out_channels = out,
                 .height = side,
                 .width = side,
                 .kernel = 5,
                 .padding = 2,
                 .pooling = Pooling::Max2x2};
  };
  return make_network({
      convolution("conv1", shape.channels, shape.width, shape.image_size),
      convolution("conv2", shape.width, wide, half),
      {.name = "fc1",
       .in_channels = wide * (half / 2) * (half / 2),
       .out_channels = 20 * shape.width},
      {.name = "fc2", .in_channels = 20 * shape.width, .out_channels = 14 * shape.width},
      {.name = "fc3",
       .in_channels = 14 * shape.width,
       .out_channels = shape.classes,
       .relu = false},
  });
}

Network pointnet(const PointNetShape& shape) {
  const std::int32_t width = shape.width;
  const auto map = [&](const char* name, std::int32_t in, std::int32_t out, Pooling pooling) {
    return Layer{.name = name,
                 .kind = LayerKind::Points,
                 .in_channels = in,
                 .out_channels = out,
                 .height = shape.points,
                 .pooling = pooling};
  };
  return make_network({
      map("map1", shape.channels, width, Pooling::None),
      map("map2", width, width, Pooling::None),
      map("map3", width, width, Pooling::None),
      map("map4", width, 2 * width, Pooling::None),
      map("map5", 2 * width, 16 * width, Pooling::MaxOverPoints),
      {.name = "fc1", .in_channels = 16 * width, .out_channels = 8 * width},
      {.name = "fc2", .in_channels = 8 * width, .out_channels = 4 * width},
      {.name = "fc3", .in_channels = 4 * width, .out_channels = shape.classes, .relu = false},
  });
}

}  // namespace triaccel::int8
