#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/conv/depthwise_cases.h"
#include "triaccel/kernels/excitation/squeeze_excite.h"

namespace triaccel::kernels {

/// Both layers, and what enters them from either side, [sample][channel].
struct ExciteInputs {
  at::Tensor squeeze, squeeze_bias, excite, excite_bias, means, gates_gradient;

  ExciteInputs to(at::Device device) const {
    return {squeeze.to(device),     squeeze_bias.to(device), excite.to(device),
            excite_bias.to(device), means.to(device),        gates_gradient.to(device)};
  }
  ExciteLayers layers() const {
    return {squeeze.data_ptr<float>(), squeeze_bias.data_ptr<float>(), excite.data_ptr<float>(),
            excite_bias.data_ptr<float>()};
  }
};

inline ExciteInputs random_excite_inputs(const ExciteShape& s) {
  const at::ScalarType type = torch_type_of(s.type);
  const auto scale = [](std::int64_t terms) { return 1 / std::sqrt(static_cast<double>(terms)); };
  return {at::randn({s.hidden, s.channels}) * scale(s.channels),
          at::randn({s.hidden}),
          at::randn({s.channels, s.hidden}) * scale(s.hidden),
          at::randn({s.channels}),
          at::randn({s.samples, s.channels}).to(type),
          at::randn({s.samples, s.channels}).to(type)};
}

struct ExciteResults {
  at::Tensor hidden, gates, hidden_gradient, means_gradient;
  at::Tensor squeeze, squeeze_bias, excite, excite_bias;  // gradients

  std::vector<at::Tensor> all() const {
    return {hidden,  gates,        hidden_gradient, means_gradient,
            squeeze, squeeze_bias, excite,          excite_bias};
  }
};

inline const std::vector<std::string> kExciteNames = {"hidden",
                                                      "gates",
                                                      "gradient of hidden",
                                                      "gradient of means",
                                                      "gradient of squeeze",
                                                      "gradient of squeeze_bias",
                                                      "gradient of excite",
                                                      "gradient of excite_bias"};

/// What a back end gives; the excite weight's gradient in `excite_type`.
template <typename Forward, typename Backward, typename Parameters>
ExciteResults excite_results(const ExciteShape& s, const ExciteInputs& in, FloatType excite_type,
                             Forward forward, Backward backward, Parameters parameters) {
  const auto poisoned = [&](at::IntArrayRef sizes, at::ScalarType type) {
    return at::full(sizes, 12345, in.means.options().dtype(type));
  };
  const at::ScalarType type = in.means.scalar_type();
  ExciteResults r = {poisoned({s.samples, s.hidden}, at::kFloat),
                     poisoned({s.samples, s.channels}, type),
                     poisoned({s.samples, s.hidden}, at::kFloat),
                     poisoned({s.samples, s.channels}, type),
                     poisoned({s.hidden, s.channels}, at::kFloat),
                     poisoned({s.hidden}, at::kFloat),
                     poisoned({s.channels, s.hidden}, torch_type_of(excite_type)),
                     poisoned({s.channels}, at::kFloat)};
  forward(in.layers(),
          ExciteForward{in.means.data_ptr(), r.hidden.data_ptr<float>(), r.gates.data_ptr()});
  backward(
      in.layers(),
      ExciteBackward{r.gates.data_ptr(), in.gates_gradient.data_ptr(), r.hidden.data_ptr<float>(),
                     r.hidden_gradient.data_ptr<float>(), r.means_gradient.data_ptr()});
  parameters(ExciteParameters{.means = in.means.data_ptr(),
                              .gates = r.gates.data_ptr(),
                              .gates_gradient = in.gates_gradient.data_ptr(),
                              .hidden = r.hidden.data_ptr<float>(),
                              .hidden_gradient = r.hidden_gradient.data_ptr<float>(),
                              .squeeze = {r.squeeze.data_ptr(), FloatType::F32},
                              .squeeze_bias = r.squeeze_bias.data_ptr<float>(),
                              .excite = {r.excite.data_ptr(), excite_type},
                              .excite_bias = r.excite_bias.data_ptr<float>()});
  return r;
}

/// In FP64. Backward starts from the gates, the hidden numbers and the hidden gradient that were
/// found: their own errors are judged by themselves. With `absolute`, what sums of magnitudes give.
inline ExciteResults excite_by_definition(const ExciteInputs& in, const ExciteResults& found,
                                          bool absolute) {
  const auto exact = [&](const at::Tensor& tensor) {
    const at::Tensor wide = tensor.cpu().to(at::kDouble);
    return absolute ? wide.abs() : wide;
  };
  const at::Tensor squeeze = exact(in.squeeze), excite = exact(in.excite);
  const at::Tensor z = found.hidden.cpu().to(at::kDouble), s = at::sigmoid(z);
  const at::Tensor gates = found.gates.cpu().to(at::kDouble);
  const at::Tensor activated = exact(z * s), slope = s * (1 + exact(z) * (1 - s));
  const at::Tensor before_gates = exact(in.gates_gradient) * gates * (1 - gates);
  const at::Tensor of_hidden = exact(found.hidden_gradient), means = exact(in.means);
  ExciteResults r;
  r.hidden = at::mm(means, squeeze.t()) + exact(in.squeeze_bias);
  const at::Tensor sum = at::mm(activated, excite.t()) + exact(in.excite_bias);
  r.gates = absolute ? sum + 1 : at::sigmoid(sum);  // whose slope is less than one
  r.hidden_gradient = at::mm(before_gates, excite) * slope;
  r.means_gradient = at::mm(of_hidden, squeeze);
  r.squeeze = at::mm(of_hidden.t(), means);
  r.squeeze_bias = of_hidden.sum(0);
  r.excite = at::mm(before_gates.t(), activated);
  r.excite_bias = before_gates.sum(0);
  return r;
}

inline std::string described(const ExciteShape& s) {
  return text(s.samples, " samples of ", s.channels, " channels and ", s.hidden,
              " hidden units of type ", static_cast<int>(s.type));
}

inline void expect_excite_definition(const ExciteShape& shape, const ExciteInputs& in,
                                     const ExciteResults& found) {
  const auto wanted = excite_by_definition(in, found, /*absolute=*/false).all();
  const auto magnitude = excite_by_definition(in, found, /*absolute=*/true).all();
  const auto results = found.all();
  for (std::size_t i = 0; i < results.size(); ++i)
    ASSERT_NO_FATAL_FAILURE(expect_close(results[i].cpu(), wanted[i], magnitude[i],
                                         kExciteNames[i] + " of " + described(shape)));
}

}  // namespace triaccel::kernels
