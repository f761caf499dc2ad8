#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "bench/rate_families.h"
#include "triaccel/base/error.h"
#include "triaccel/ops/map_convolution.h"

namespace triaccel::bench {
namespace {

struct MapConvolution {
  std::int64_t samples, channels, filters, map, window, stride;
};

/// ResNet-18 of 32 px with the ImageNet stem at batch 96; at batch 1024 and with the CIFAR stem,
/// what lies around the size from which on libtorch computes it.
constexpr std::array kConvolutions = {
    MapConvolution{96, 64, 64, 8, 3, 1},     MapConvolution{96, 64, 128, 8, 3, 2},
    MapConvolution{96, 64, 128, 8, 1, 2},    MapConvolution{96, 128, 128, 4, 3, 1},
    MapConvolution{96, 128, 256, 4, 3, 2},   MapConvolution{96, 256, 256, 2, 3, 1},
    MapConvolution{96, 512, 512, 1, 1, 1},   MapConvolution{96, 512, 512, 4, 3, 1},
    MapConvolution{96, 256, 256, 8, 3, 1},   MapConvolution{256, 64, 64, 8, 3, 1},
    MapConvolution{1024, 256, 256, 2, 3, 1}, MapConvolution{1024, 128, 128, 4, 3, 1}};

struct MapLayer {
  MapLayer(const MapConvolution& c, c10::Device device)
      : geometry{.stride = {c.stride, c.stride}, .padding = {c.window / 2, c.window / 2}},
        map(made({c.samples, c.channels, c.map, c.map}, device)),
        weight(made({c.filters, c.channels, c.window, c.window}, device)),
        gradient(at::randn_like(map_convolution(map, weight, geometry))) {}

  static at::Tensor made(at::IntArrayRef sizes, c10::Device device) {
    return at::randn(sizes, at::TensorOptions(at::kBFloat16).device(device))
        .contiguous(at::MemoryFormat::ChannelsLast);
  }

  WindowPlacement geometry;
  at::Tensor map, weight, gradient;
};

void map_convolution_rates_at(RateMeter& meter, const MapConvolution& c) {
  using Method = std::vector<at::Tensor> (*)(const MapLayer&);
  const auto calling = [=, device = meter.device()](Method method) -> MakeCall {
    return [=]() -> Call {
      const auto layer = std::make_shared<MapLayer>(c, device);
      return [=] { return method(*layer); };
    };
  };
  using Layer = const MapLayer&;
  using Tensors = std::vector<at::Tensor>;
  const std::int64_t side = (c.map - 1) / c.stride + 1;
  RateCase what{.family = "map convolution",
                .kernel = "forward",
                .shape = text(c.samples, " x ", c.channels, " x ", c.map, " x ", c.map, " to ",
                              c.filters, ", ", c.window, "/", c.stride),
                .bytes = 2 * (c.samples * (c.channels * c.map * c.map + c.filters * side * side) +
                              c.channels * c.filters * c.window * c.window)};
  meter.measure(what, calling([](Layer l) -> Tensors {
                  return {map_convolution(l.map, l.weight, l.geometry)};
                }),
                calling([](Layer l) -> Tensors {
                  return {at::conv2d(l.map, l.weight, {}, l.geometry.stride, l.geometry.padding)};
                }));
  if (c.stride != 1) return;
  what.kernel = "input gradient";
  meter.measure(what, calling([](Layer l) -> Tensors {
                  return {map_input_gradient(l.gradient, l.map, l.weight, l.geometry)};
                }),
                calling([](Layer l) -> Tensors {
                  return {std::get<0>(at::convolution_backward(
                      l.gradient, l.map, l.weight, at::OptionalIntArrayRef(), l.geometry.stride,
                      l.geometry.padding, /*dilation=*/{1, 1}, /*transposed=*/false,
                      /*output_padding=*/{0, 0}, /*groups=*/1, {true, false, false}))};
                }));
}

}  // namespace

void map_convolution_rates(RateMeter& meter) {
  for (const MapConvolution& convolution : kConvolutions)
    map_convolution_rates_at(meter, convolution);
}

}  // namespace triaccel::bench
