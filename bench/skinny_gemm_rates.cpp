#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "bench/rate_families.h"
#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/bias.h"
#include "triaccel/ops/tensors/skinny_gemm.h"

namespace triaccel::bench {
namespace {

struct ClassifierShape {
  std::int64_t rows, features, classes;
};

/// The last layers of ResNet-18 and EfficientNet-B0 for ten classes, and of more rows and classes.
constexpr std::array kClassifiers = {
    ClassifierShape{96, 512, 10},  ClassifierShape{1024, 512, 10},
    ClassifierShape{96, 1280, 10}, ClassifierShape{1024, 2048, 10},
    ClassifierShape{96, 512, 32},  ClassifierShape{1024, 2048, 32}};

struct Classifier {
  Classifier(const ClassifierShape& s, c10::Device device) {
    const at::TensorOptions low = at::TensorOptions(at::kBFloat16).device(device);
    input = at::randn({s.rows, s.features}, low);
    weight = at::randn({s.classes, s.features}, low);
    bias = at::randn({s.classes}, low.dtype(at::kFloat));
    output_gradient = at::randn({s.rows, s.classes}, low);
  }

  at::Tensor input, weight, bias, output_gradient;
};

void skinny_gemm_rates_at(RateMeter& meter, const ClassifierShape& shape) {
  const auto calling = [=, device = meter.device()](at::Tensor (*body)(const Classifier&)) {
    return [=]() -> Call {
      const auto layer = std::make_shared<Classifier>(shape, device);
      return [=]() -> std::vector<at::Tensor> { return {body(*layer)}; };
    };
  };
  using Layer = const Classifier&;
  RateCase what{
      .family = "skinny GEMM",
      .kernel = "forward, bias",
      .shape = text(shape.rows, " x ", shape.features, ", ", shape.classes, " outputs"),
      .bytes = 2 * (shape.rows * (shape.features + shape.classes) + shape.features * shape.classes),
      .operations = 2.0 * static_cast<double>(shape.rows * shape.features * shape.classes)};
  meter.measure(what, calling([](Layer l) { return skinny_gemm(l.input, l.weight, l.bias); }),
                calling([](Layer l) {
                  at::Tensor output = at::mm(l.input, l.weight.t());
                  add_bias(output, l.bias);
                  return output;
                }));
  what.kernel = "input gradient";
  meter.measure(what,
                calling([](Layer l) { return skinny_input_gradient(l.output_gradient, l.weight); }),
                calling([](Layer l) { return at::mm(l.output_gradient, l.weight); }));
}

}  // namespace

void skinny_gemm_rates(RateMeter& meter) {
  for (const ClassifierShape& shape : kClassifiers) skinny_gemm_rates_at(meter, shape);
}

}  // namespace triaccel::bench
