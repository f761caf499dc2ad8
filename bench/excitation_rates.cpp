#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "bench/rate_families.h"
#include "triaccel/base/error.h"
#include "triaccel/ops/norm/squeeze_excite.h"

namespace triaccel::bench {
namespace {

struct ExcitationShape {
  std::int64_t samples, channels, hidden;
};

/// EfficientNet-B0 at batch 96, and its widest blocks at batch 1024.
constexpr std::array kExcitations = {
    ExcitationShape{96, 32, 8},    ExcitationShape{96, 96, 4},     ExcitationShape{96, 144, 6},
    ExcitationShape{96, 240, 10},  ExcitationShape{96, 480, 20},   ExcitationShape{96, 672, 28},
    ExcitationShape{96, 1152, 48}, ExcitationShape{1024, 480, 20}, ExcitationShape{1024, 1152, 48}};

/// Both layers with what enters them, and the same in torch's operators, in BF16.
struct ExcitedLayers {
  ExcitedLayers(const ExcitationShape& s, c10::Device device) {
    const at::TensorOptions floats = at::TensorOptions(at::kFloat).device(device);
    layers = {at::randn({s.hidden, s.channels, 1, 1}, floats) * 0.1, at::randn({s.hidden}, floats),
              at::randn({s.channels, s.hidden, 1, 1}, floats) * 0.1,
              at::randn({s.channels}, floats)};
    const auto lower = [](const at::Tensor& tensor) { return tensor.to(at::kBFloat16); };
    low = {lower(layers.squeeze), lower(layers.squeeze_bias), lower(layers.excite),
           lower(layers.excite_bias)};
    means = lower(at::randn({s.samples, s.channels, 1, 1}, floats));
    gradient = at::randn_like(means);
    forward = excitation(means, layers);
    backward = excitation_gradient(gradient, forward, layers);
    torch_forward();
  }

  std::vector<at::Tensor> ours_forward() const {
    const Excitation result = excitation(means, layers);
    return {result.gates, result.hidden};
  }
  std::vector<at::Tensor> ours_gradient() const {
    const ExcitationGradient result = excitation_gradient(gradient, forward, layers);
    return {result.means, result.hidden};
  }
  std::vector<at::Tensor> ours_parameters() const {
    const ExcitationLayers result = excitation_parameter_gradients(
        gradient, means, forward, backward, at::kBFloat16, at::kBFloat16);
    return {result.squeeze, result.squeeze_bias, result.excite, result.excite_bias};
  }
  std::vector<at::Tensor> ours_backward() const {
    std::vector<at::Tensor> all = ours_gradient();
    for (const at::Tensor& tensor : ours_parameters()) all.push_back(tensor);
    return all;
  }

  std::vector<at::Tensor> torch_forward() {
    hidden = at::conv2d(means, low.squeeze, low.squeeze_bias);
    activated = at::silu(hidden);
    const at::Tensor sum = at::conv2d(activated, low.excite, low.excite_bias);
    gates = at::sigmoid(sum);
    return {hidden, activated, sum, gates};
  }
  std::vector<at::Tensor> torch_backward() {
    const auto back = [](const at::Tensor& of_output, const at::Tensor& input,
                         const at::Tensor& weight) {
      const std::array<std::int64_t, 1> outputs = {weight.size(0)};
      return at::convolution_backward(of_output, input, weight, at::IntArrayRef(outputs), {1, 1},
                                      {0, 0}, {1, 1}, /*transposed=*/false, {0, 0}, /*groups=*/1,
                                      {true, true, true});
    };
    const at::Tensor of_sum = at::sigmoid_backward(gradient, gates);
    const auto [of_activated, excite, excite_bias] = back(of_sum, activated, low.excite);
    const at::Tensor of_hidden = at::silu_backward(of_activated, hidden);
    const auto [of_means, squeeze, squeeze_bias] = back(of_hidden, means, low.squeeze);
    return {of_sum, of_activated, excite, excite_bias, of_hidden, of_means, squeeze, squeeze_bias};
  }

  ExcitationLayers layers, low;
  at::Tensor means, gradient;
  Excitation forward;
  ExcitationGradient backward;
  at::Tensor hidden, activated, gates;  // torch's
};

void excitation_rates_at(RateMeter& meter, const ExcitationShape& shape) {
  using Method = std::vector<at::Tensor> (*)(ExcitedLayers&);
  const auto calling = [=, device = meter.device()](Method method) -> MakeCall {
    return [=]() -> Call {
      const auto layers = std::make_shared<ExcitedLayers>(shape, device);
      return [=] { return method(*layers); };
    };
  };
  using Layers = ExcitedLayers&;
  const std::int64_t weights = 2 * shape.channels * shape.hidden;
  const std::int64_t by_channel = 2 * shape.samples * shape.channels;  // bytes
  const std::int64_t by_hidden = 4 * shape.samples * shape.hidden;
  RateCase what{.family = "excitation",
                .kernel = "forward",
                .shape = text(shape.samples, " x ", shape.channels, ", ", shape.hidden, " hidden"),
                .bytes = 4 * weights + 2 * by_channel + by_hidden};
  meter.measure(what, calling([](Layers l) { return l.ours_forward(); }),
                calling([](Layers l) { return l.torch_forward(); }));
  what.kernel = "means gradient";
  what.bytes = 4 * weights + 3 * by_channel + 2 * by_hidden;
  meter.measure(what, calling([](Layers l) { return l.ours_gradient(); }));
  what.kernel = "parameter gradients";
  what.bytes = 2 * weights + 3 * by_channel + 2 * by_hidden;
  meter.measure(what, calling([](Layers l) { return l.ours_parameters(); }));
  what.kernel = "backward, both kernels";
  what.bytes = 6 * weights + 6 * by_channel + 4 * by_hidden;
  meter.measure(what, calling([](Layers l) { return l.ours_backward(); }),
                calling([](Layers l) { return l.torch_backward(); }));
}

}  // namespace

void excitation_rates(RateMeter& meter) {
  for (const ExcitationShape& shape : kExcitations) excitation_rates_at(meter, shape);
}

}  // namespace triaccel::bench
