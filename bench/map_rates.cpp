#include <ATen/ATen.h>

#include "bench/map_shapes.h"
#include "bench/rate_families.h"
#include "triaccel/ops/conv/depthwise.h"
#include "triaccel/ops/conv/max_pool.h"
#include "triaccel/ops/conv/stem_convolution.h"
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/ops/norm/channel_gate.h"
#include "triaccel/ops/tensors/bias.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Calls that run `body` on a State of their own, made for the shape.
template <typename State, typename Shape>
MakeCall calling_on(const Shape& shape, c10::Device device, Tensors (*body)(const State&)) {
  return [=]() -> Call {
    const auto state = std::make_shared<State>(shape, device);
    return [=] { return body(*state); };
  };
}

enum class Residual { Without, With };

/// Tensors of one batch norm, and the same layer in torch's operators.
struct NormLayer {
  NormLayer(const MapShape& shape, Activation how, Residual has_residual, c10::Device device)
      : activation(how), input(shape.random(device)), gradient(shape.random(device)) {
    const at::TensorOptions floats = at::TensorOptions(at::kFloat).device(device);
    const std::int64_t channels = shape.channels;
    norm = {.weight = at::rand({channels}, floats) + 0.5,
            .bias = at::randn({channels}, floats),
            .running_mean = at::zeros({channels}, floats),
            .running_variance = at::ones({channels}, floats)};
    saved = {.mean = at::empty({channels}, floats),
             .inverse_deviation = at::empty({channels}, floats)};
    if (has_residual == Residual::With) residual = shape.random(device);
    if (activation == Activation::Relu && residual.defined()) gates = empty_relu_mask(input);
    output = ours_forward().front();
    normalised = std::get<0>(torch_norm());
  }

  std::vector<at::Tensor> ours_forward() const {
    at::Tensor result = at::empty_like(input);
    batch_norm_train(result, saved, input, norm, {residual, activation, gates});
    return {result};
  }

  std::vector<at::Tensor> ours_backward() const {
    const NormGradients all = batch_norm_backward({gradient,
                                                   {},
                                                   input,
                                                   gates,
                                                   saved,
                                                   norm,
                                                   activation,
                                                   residual.defined(),
                                                   /*want_input=*/true});
    return {all.input, all.weight, all.bias, all.residual};
  }

  std::tuple<at::Tensor, at::Tensor, at::Tensor> torch_norm() const {
    return at::native_batch_norm(input, norm.weight, norm.bias, norm.running_mean,
                                 norm.running_variance, /*training=*/true, norm.momentum, norm.eps);
  }

  std::vector<at::Tensor> torch_forward() const {
    at::Tensor result = std::get<0>(torch_norm());
    if (residual.defined()) result.add_(residual);
    if (activation == Activation::Relu) result.relu_();
    if (activation == Activation::Silu) return {at::silu(result), result};
    return {result};
  }

  std::vector<at::Tensor> torch_backward() const {
    at::Tensor inner = gradient;
    if (activation == Activation::Relu) inner = at::threshold_backward(gradient, output, 0);
    if (activation == Activation::Silu) inner = at::silu_backward(gradient, normalised);
    const auto [of_input, of_weight, of_bias] = at::native_batch_norm_backward(
        inner, input, norm.weight, norm.running_mean, norm.running_variance, saved.mean,
        saved.inverse_deviation, /*train=*/true, norm.eps, {true, true, true});
    return {of_input, of_weight, of_bias, inner};
  }

  Activation activation;
  NormParameters norm;
  NormStatistics saved;
  at::Tensor input, gradient, residual;
  at::Tensor gates;       // of a ReLU after a residual
  at::Tensor output;      // what torch keeps for ReLU's backward
  at::Tensor normalised;  // what torch keeps for SiLU's backward
};

void batch_norm_rates_at(RateMeter& meter, const MapShape& shape, Activation activation,
                         Residual residual, const std::string& name) {
  using Method = std::vector<at::Tensor> (NormLayer::*)() const;
  const auto calling = [=, device = meter.device()](Method method) -> MakeCall {
    return [=]() -> Call {
      const auto layer = std::make_shared<NormLayer>(shape, activation, residual, device);
      return [=] { return (layer.get()->*method)(); };
    };
  };
  const bool adds = residual == Residual::With;
  // Forward reads the input (and the residual) and writes the output. Backward reads input and
  // gradient and writes the input's; behind an added residual it also writes the residual's. There
  // both move the gates, a sixteenth of a map. Statistics come first, so a map that does not stay
  // in the cache is read twice.
  const std::int64_t gates = adds ? shape.bytes() / 16 : 0;
  const bool twice = 3 * shape.bytes() > meter.cache_bytes();
  meter.measure({.family = "batch norm",
                 .kernel = name + " forward",
                 .shape = shape.text(),
                 .bytes = ((adds ? 3 : 2) + (twice ? 1 : 0)) * shape.bytes() + gates},
                calling(&NormLayer::ours_forward), calling(&NormLayer::torch_forward));
  meter.measure({.family = "batch norm",
                 .kernel = name + " backward",
                 .shape = shape.text(),
                 .bytes = ((adds ? 4 : 3) + (twice ? 2 : 0)) * shape.bytes() + gates},
                calling(&NormLayer::ours_backward), calling(&NormLayer::torch_backward));
}

struct DepthwiseShape {
  MapShape input;
  std::int64_t window, stride;
};

/// EfficientNet-B0 at batch 96, of 32 px and of 224 px.
constexpr std::array kDepthwise = {
    DepthwiseShape{{96, 32, 16}, 3, 1},  DepthwiseShape{{96, 96, 16}, 3, 2},
    DepthwiseShape{{96, 144, 8}, 5, 2},  DepthwiseShape{{96, 240, 4}, 5, 1},
    DepthwiseShape{{96, 672, 2}, 5, 1},  DepthwiseShape{{96, 1152, 1}, 5, 1},
    DepthwiseShape{{96, 32, 112}, 3, 1}, DepthwiseShape{{96, 96, 112}, 3, 2},
    DepthwiseShape{{96, 144, 56}, 3, 1}, DepthwiseShape{{96, 144, 56}, 5, 2},
    DepthwiseShape{{96, 240, 28}, 5, 1}, DepthwiseShape{{96, 480, 14}, 3, 1},
    DepthwiseShape{{96, 672, 14}, 5, 1}, DepthwiseShape{{96, 1152, 7}, 5, 1}};

struct DepthwiseLayer {
  DepthwiseLayer(const DepthwiseShape& shape, c10::Device device)
      : geometry{.stride = {shape.stride, shape.stride},
                 .padding = {shape.window / 2, shape.window / 2}},
        input(shape.input.random(device)),
        weight(at::randn({shape.input.channels, 1, shape.window, shape.window},
                         at::TensorOptions(at::kFloat).device(device))),
        torch_weight(weight.to(at::kBFloat16)),
        gradient(at::randn_like(depthwise_forward(input, weight, geometry))) {}

  std::vector<at::Tensor> torch_backward(bool of_input, bool of_weight) const {
    const auto [first, second, bias] = at::convolution_backward(
        gradient, input, torch_weight, at::OptionalIntArrayRef(), geometry.stride, geometry.padding,
        /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, input.size(1),
        {of_input, of_weight, false});
    return {first, second};
  }

  WindowPlacement geometry;
  at::Tensor input, weight, torch_weight, gradient;
};

void depthwise_rates_at(RateMeter& meter, const DepthwiseShape& shape) {
  const auto calling = [&](Tensors (*body)(const DepthwiseLayer&)) {
    return calling_on(shape, meter.device(), body);
  };
  MapShape output = shape.input;
  output.pixels = (output.pixels - 1) / shape.stride + 1;  // of an odd window, half of it padding
  RateCase what{.family = "depthwise",
                .kernel = "forward",
                .shape = text(shape.input.text(), ", ", shape.window, "/", shape.stride),
                .bytes = shape.input.bytes() + output.bytes()};
  using Layer = const DepthwiseLayer&;
  meter.measure(what, calling([](Layer l) -> Tensors {
                  return {depthwise_forward(l.input, l.weight, l.geometry)};
                }),
                calling([](Layer l) -> Tensors {
                  return {at::conv2d(l.input, l.torch_weight, {}, l.geometry.stride,
                                     l.geometry.padding, 1, l.input.size(1))};
                }));
  what.kernel = "input gradient";
  meter.measure(what, calling([](Layer l) -> Tensors {
                  return {depthwise_input_gradient(l.gradient, l.input, l.weight, l.geometry)};
                }),
                calling([](Layer l) -> Tensors { return l.torch_backward(true, false); }));
  what.kernel = "weight gradient";
  meter.measure(what, calling([](Layer l) -> Tensors {
                  return {depthwise_weight_gradient(l.gradient, l.input, l.weight, l.geometry)};
                }),
                calling([](Layer l) -> Tensors { return l.torch_backward(false, true); }));
}

/// A map with its gates and gradients.
struct GatedMap {
  GatedMap(const MapShape& shape, c10::Device device)
      : map(shape.random(device)),
        gradient(shape.random(device)),
        gates(MapShape{shape.samples, shape.channels, 1}.random(device)),
        mean_gradient(MapShape{shape.samples, shape.channels, 1}.random(device)) {}

  at::Tensor map, gradient, gates, mean_gradient;
};

void channel_gate_rates_at(RateMeter& meter, const MapShape& shape) {
  using Map = const GatedMap&;
  const auto calling = [&](Tensors (*body)(const GatedMap&)) {
    return calling_on(shape, meter.device(), body);
  };
  const auto measure = [&](const char* kernel, std::int64_t maps, Tensors (*ours)(Map),
                           Tensors (*replaced)(Map)) {
    meter.measure({.family = "channel gate",
                   .kernel = kernel,
                   .shape = shape.text(),
                   .bytes = maps * shape.bytes()},
                  calling(ours), calling(replaced));
  };
  measure(
      "mean", 1, [](Map m) -> Tensors { return {pixel_mean(m.map)}; },
      [](Map m) -> Tensors {
        return {at::mean(m.map, {2, 3}, /*keepdim=*/true)};
      });
  measure(
      "gate", 2, [](Map m) -> Tensors { return {gate_channels(m.map, m.gates)}; },
      [](Map m) -> Tensors { return {at::mul(m.map, m.gates)}; });
  measure(
      "gates gradient", 2, [](Map m) -> Tensors { return {gates_gradient(m.gradient, m.map)}; },
      [](Map m) -> Tensors {
        return {at::sum(at::mul(m.gradient, m.map), {2, 3}, /*keepdim=*/true)};
      });
  measure(
      "map gradient", 2,
      [](Map m) -> Tensors {
        return {gated_map_gradient(m.gradient, m.gates, m.mean_gradient, m.map.sizes())};
      },
      [](Map m) -> Tensors {
        const auto pixels = static_cast<double>(m.map.size(2) * m.map.size(3));
        return {at::add(at::mul(m.gradient, m.gates), at::div(m.mean_gradient, pixels))};
      });
}

/// ResNet's pooling behind the ImageNet stem, of 32 px and of 224 px.
constexpr std::array kPooled = {MapShape{96, 64, 16}, MapShape{1024, 64, 16},
                                MapShape{96, 64, 112}};

struct PooledMap {
  PooledMap(const MapShape& shape, c10::Device device)
      : map(shape.random(device)),
        maxima(max_pool(map, geometry)),
        indices(std::get<1>(torch_maxima())),
        gradient(at::randn_like(maxima.values)) {}

  std::tuple<at::Tensor, at::Tensor> torch_maxima() const {
    return at::max_pool2d_with_indices(map, geometry.window, geometry.stride, geometry.padding);
  }

  PoolGeometry geometry = {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  at::Tensor map;
  Maxima maxima;
  at::Tensor indices, gradient;
};

void max_pool_rates_at(RateMeter& meter, const MapShape& shape) {
  using Map = const PooledMap&;
  const auto calling = [&](Tensors (*body)(const PooledMap&)) {
    return calling_on(shape, meter.device(), body);
  };
  const std::int64_t bytes = shape.bytes() + shape.bytes() / 4 * 3 / 2;  // maxima and their taps
  meter.measure({.family = "max pool", .kernel = "forward", .shape = shape.text(), .bytes = bytes},
                calling([](Map m) -> Tensors {
                  const Maxima found = max_pool(m.map, m.geometry);
                  return {found.values, found.taps};
                }),
                calling([](Map m) -> Tensors {
                  const auto [values, indices] = m.torch_maxima();
                  return {values, indices};
                }));
  meter.measure({.family = "max pool", .kernel = "gradient", .shape = shape.text(), .bytes = bytes},
                calling([](Map m) -> Tensors {
                  return {max_pool_gradient(m.gradient, m.maxima.taps, m.map.sizes(), m.geometry)};
                }),
                calling([](Map m) -> Tensors {
                  return {at::max_pool2d_with_indices_backward(
                      m.gradient, m.map, m.geometry.window, m.geometry.stride, m.geometry.padding,
                      /*dilation=*/{1, 1}, /*ceil_mode=*/false, m.indices)};
                }));
}

/// What the strided shortcuts of ResNet-18 read, CIFAR stem at batch 1024.
constexpr std::array kShortcuts = {MapShape{1024, 64, 32}, MapShape{1024, 128, 16},
                                   MapShape{1024, 256, 8}};

struct ShortcutMap {
  ShortcutMap(const MapShape& shape, c10::Device device)
      : map(shape.random(device)), even(even_pixels(map)) {}

  static at::Tensor sliced(const at::Tensor& map) {
    return map.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2);
  }

  at::Tensor map, even;
};

void even_pixel_rates_at(RateMeter& meter, const MapShape& shape) {
  using Map = const ShortcutMap&;
  const auto calling = [&](Tensors (*body)(const ShortcutMap&)) {
    return calling_on(shape, meter.device(), body);
  };
  const std::int64_t even = shape.bytes() / 4;
  meter.measure(
      {.family = "even pixels", .kernel = "take", .shape = shape.text(), .bytes = 2 * even},
      calling([](Map m) -> Tensors { return {even_pixels(m.map)}; }), calling([](Map m) -> Tensors {
        return {ShortcutMap::sliced(m.map).contiguous(at::MemoryFormat::ChannelsLast)};
      }));
  meter.measure(
      {.family = "even pixels",
       .kernel = "spread",
       .shape = shape.text(),
       .bytes = even + shape.bytes()},
      calling([](Map m) -> Tensors { return {scatter_even_pixels(m.even, m.map.sizes())}; }),
      calling([](Map m) -> Tensors {
        const at::Tensor all = at::zeros_like(m.map);
        ShortcutMap::sliced(all).copy_(m.even);
        return {all};
      }));
}

struct FirstConvolution {
  std::int64_t samples, pixels, filters, window, stride;
};

/// ResNet-18 of 32 px with both stems; EfficientNet-B0 and ResNet-18 of 224 px.
constexpr std::array kFirstConvolutions = {
    FirstConvolution{96, 32, 64, 7, 2},  FirstConvolution{1024, 32, 64, 7, 2},
    FirstConvolution{96, 32, 64, 3, 1},  FirstConvolution{1024, 32, 64, 3, 1},
    FirstConvolution{96, 224, 32, 3, 2}, FirstConvolution{96, 224, 64, 7, 2}};

struct FirstLayer {
  FirstLayer(const FirstConvolution& shape, c10::Device device)
      : geometry{.stride = {shape.stride, shape.stride},
                 .padding = {shape.window / 2, shape.window / 2}},
        images(at::randn({shape.samples, 3, shape.pixels, shape.pixels},
                         at::TensorOptions(at::kFloat).device(device))
                   .contiguous(at::MemoryFormat::ChannelsLast)),
        rounded(images.to(at::kBFloat16)),
        weight(at::randn({shape.filters, 3, shape.window, shape.window}, images.options())
                   .contiguous(at::MemoryFormat::ChannelsLast)),
        torch_weight(weight.to(at::kBFloat16)),
        gradient(at::randn_like(forward())) {}

  at::Tensor forward() const { return stem_convolution(images, weight, geometry, at::kBFloat16); }

  WindowPlacement geometry;
  at::Tensor images, rounded, weight, torch_weight, gradient;
};

void stem_convolution_rates_at(RateMeter& meter, const FirstConvolution& shape) {
  using Layer = const FirstLayer&;
  const auto calling = [&](Tensors (*body)(const FirstLayer&)) {
    return calling_on(shape, meter.device(), body);
  };
  const std::int64_t side = (shape.pixels - 1) / shape.stride + 1;
  const std::int64_t map_bytes = 2 * shape.samples * side * side * shape.filters;
  const std::int64_t image_bytes = 4 * 3 * shape.samples * shape.pixels * shape.pixels;
  RateCase what{.family = "stem convolution",
                .kernel = "forward",
                .shape = text(shape.samples, " x 3 x ", shape.pixels, " x ", shape.pixels, " to ",
                              shape.filters, ", ", shape.window, "/", shape.stride),
                .bytes = image_bytes + map_bytes};
  meter.measure(
      what, calling([](Layer l) -> Tensors { return {l.forward()}; }),
      calling([](Layer l) -> Tensors {
        return {at::conv2d(l.rounded, l.torch_weight, {}, l.geometry.stride, l.geometry.padding)};
      }));
  what.kernel = "weight gradient";
  meter.measure(
      what, calling([](Layer l) -> Tensors {
        return {stem_weight_gradient(l.gradient, l.images, l.weight, l.geometry)};
      }),
      calling([](Layer l) -> Tensors {
        return {std::get<1>(at::convolution_backward(
            l.gradient, l.rounded, l.torch_weight, at::OptionalIntArrayRef(), l.geometry.stride,
            l.geometry.padding, /*dilation=*/{1, 1},
            /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, {false, true, false}))};
      }));
}

/// Squeeze-excitation's products in EfficientNet-B0 at batch 96, and maps.
constexpr std::array kBiased = {MapShape{96, 32, 1},    MapShape{96, 240, 1},
                                MapShape{96, 1152, 1},  MapShape{96, 64, 16},
                                MapShape{1024, 64, 32}, MapShape{96, 32, 112}};

struct BiasedMap {
  BiasedMap(const MapShape& shape, c10::Device device)
      : map(shape.random(device)),
        bias(at::randn({shape.channels}, at::TensorOptions(at::kFloat).device(device))) {}

  at::Tensor map, bias;
};

void bias_rates_at(RateMeter& meter, const MapShape& shape) {
  using Map = const BiasedMap&;
  const auto calling = [&](Tensors (*body)(const BiasedMap&)) {
    return calling_on(shape, meter.device(), body);
  };
  meter.measure(
      {.family = "bias", .kernel = "add", .shape = shape.text(), .bytes = 2 * shape.bytes()},
      calling([](Map m) -> Tensors {
        add_bias(m.map, m.bias);
        return {};
      }),
      calling([](Map m) -> Tensors {
        m.map.add_(m.bias.view({1, -1, 1, 1}));
        return {};
      }));
  meter.measure(
      {.family = "bias", .kernel = "gradient", .shape = shape.text(), .bytes = shape.bytes()},
      calling([](Map m) -> Tensors { return {bias_gradient(m.map)}; }),
      calling([](Map m) -> Tensors {
        return {at::sum(m.map, {0, 2, 3}, /*keepdim=*/false, at::kFloat)};
      }));
}

}  // namespace

void batch_norm_rates(RateMeter& meter) {
  for (const MapShape& shape : kResidualMaps) {
    batch_norm_rates_at(meter, shape, Activation::Relu, Residual::Without, "ReLU");
    batch_norm_rates_at(meter, shape, Activation::Relu, Residual::With, "add, ReLU");
  }
  for (const MapShape& shape : kWideMaps)
    batch_norm_rates_at(meter, shape, Activation::Silu, Residual::Without, "SiLU");
}

void depthwise_rates(RateMeter& meter) {
  for (const DepthwiseShape& shape : kDepthwise) depthwise_rates_at(meter, shape);
}

void channel_gate_rates(RateMeter& meter) {
  for (const MapShape& shape : kWideMaps) channel_gate_rates_at(meter, shape);
}

void max_pool_rates(RateMeter& meter) {
  for (const MapShape& shape : kPooled) max_pool_rates_at(meter, shape);
}

void even_pixel_rates(RateMeter& meter) {
  for (const MapShape& shape : kShortcuts) even_pixel_rates_at(meter, shape);
}

void stem_convolution_rates(RateMeter& meter) {
  for (const FirstConvolution& shape : kFirstConvolutions) stem_convolution_rates_at(meter, shape);
}

void bias_rates(RateMeter& meter) {
  for (const MapShape& shape : kBiased) bias_rates_at(meter, shape);
}

}  // namespace triaccel::bench
