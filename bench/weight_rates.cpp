#include <ATen/ATen.h>

#include <memory>

#include "bench/rate_families.h"
#include "triaccel/base/error.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/ops/loss_data/cross_entropy.h"
#include "triaccel/ops/update/weight_copies.h"
#include "triaccel/optim/gradient_control.h"
#include "triaccel/optim/optimizer.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel::bench {
namespace {

const std::vector<std::string> kModels = {"resnet18", "efficientnet-b0"};

at::Tensor on_device_as_trained(const at::Tensor& weight, c10::Device device) {
  const at::Tensor moved = weight.detach().to(device);
  return moved.dim() == 4 ? moved.contiguous(at::MemoryFormat::ChannelsLast) : moved;
}

std::int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

/// The weights that run in 16 bits: not those of depthwise convolutions, which are read as FP32.
std::vector<at::Tensor> copied_weights(const std::string& model, c10::Device device) {
  std::vector<at::Tensor> weights;
  for (const at::Tensor& weight : layer_weights(make_model({.name = model})))
    if (weight.size(1) > 1) weights.push_back(on_device_as_trained(weight, device));
  return weights;
}

/// A network's parameters with gradients, its optimizer, and torch's own state.
struct Update {
  Update(const std::string& model, at::ScalarType gradient_type, const OptimizerOptions& options,
         c10::Device device)
      : refs(parameters_with_gradients(model, gradient_type, device)),
        gradients(GradientControlOptions{}, refs, layer_count(refs)),
        optimizer(make_optimizer(options, refs)),
        learning_rates(
            at::full({layer_count(refs)}, 1e-4, at::TensorOptions(at::kFloat).device(device))),
        found_nonfinite(at::zeros({1}, learning_rates.options())),
        one(at::ones({1}, learning_rates.options())) {
    for (const ParameterRef& ref : refs) {
      parameters.push_back(ref.tensor);
      torch_gradients.push_back(ref.tensor.grad());
      torch_momentum.push_back(at::zeros_like(ref.tensor));
      if (options.kind != OptimizerKind::AdamW) continue;
      torch_squares.push_back(at::zeros_like(ref.tensor));
      torch_steps.push_back(one.squeeze(0).clone());
    }
  }

  static std::vector<ParameterRef> parameters_with_gradients(const std::string& model,
                                                             at::ScalarType gradient_type,
                                                             c10::Device device) {
    std::vector<ParameterRef> refs = parameters_of(make_model({.name = model}));
    for (ParameterRef& ref : refs) {
      ref.tensor = on_device_as_trained(ref.tensor, device);
      ref.tensor.mutable_grad() = at::randn_like(ref.tensor).mul_(1e-3).to(gradient_type);
    }
    return refs;
  }

  static std::int64_t layer_count(const std::vector<ParameterRef>& refs) {
    std::int64_t count = 0;
    for (const ParameterRef& ref : refs) count = std::max(count, ref.layer + 1);
    return count;
  }

  void measure() { gradients.measure(); }
  void update() { optimizer->update(gradients.update_inputs(learning_rates)); }
  void torch_check() {
    at::_amp_foreach_non_finite_check_and_unscale_(torch_gradients, found_nonfinite, one);
  }
  void torch_update() {
    at::_fused_sgd_(parameters, torch_gradients, torch_momentum, /*weight_decay=*/5e-4,
                    /*momentum=*/0.9, /*lr=*/1e-4, /*dampening=*/0.0, /*nesterov=*/false,
                    /*maximize=*/false, /*is_first_step=*/false);
  }
  void torch_adamw_update() {
    at::_fused_adamw_(parameters, torch_gradients, torch_momentum, torch_squares, {}, torch_steps,
                      /*lr=*/1e-4, /*beta1=*/0.9, /*beta2=*/0.999, /*weight_decay=*/5e-4,
                      /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }

  std::vector<ParameterRef> refs;
  GradientControl gradients;
  std::unique_ptr<Optimizer> optimizer;
  at::Tensor learning_rates, found_nonfinite, one;
  std::vector<at::Tensor> parameters, torch_gradients, torch_momentum, torch_squares, torch_steps;
};

void update_rates_at(RateMeter& meter, const std::string& model, at::ScalarType gradient_type) {
  const auto calling = [&](void (*body)(Update&), at::ScalarType type,
                           const OptimizerOptions& options = {}) -> MakeCall {
    return [=, device = meter.device()]() -> Call {
      const auto update = std::make_shared<Update>(model, type, options, device);
      return [=]() -> std::vector<at::Tensor> {
        body(*update);
        return {};
      };
    };
  };
  const std::int64_t count = parameter_count(make_model({.name = model}));
  const std::int64_t gradient_bytes = gradient_type == at::kFloat ? 4 : 2;
  const std::string type = gradient_type == at::kFloat ? " F32 gradients" : " BF16 gradients";
  RateCase what{.family = "update", .kernel = "moments", .shape = model + type};
  what.bytes = gradient_bytes * count;
  // Torch's optimizer takes gradients in the type of the weights only.
  meter.measure(what, calling([](Update& u) { u.measure(); }, gradient_type),
                calling([](Update& u) { u.torch_check(); }, at::kFloat));
  for (const OptimizerKind kind : {OptimizerKind::Sgd, OptimizerKind::AdamW})
    for (const StateFormat state : {StateFormat::Fp32, StateFormat::Fp8}) {
      const bool sgd = kind == OptimizerKind::Sgd;
      const std::int64_t state_bytes = (sgd ? 2 : 4) * (state == StateFormat::Fp32 ? 4 : 1);
      what.kernel = text(sgd ? "SGD" : "AdamW", state == StateFormat::Fp32 ? "" : ", FP8 state");
      what.bytes = (8 + state_bytes + gradient_bytes) * count;
      const OptimizerOptions options{.kind = kind, .state = state};
      meter.measure(
          what, calling([](Update& u) { u.update(); }, gradient_type, options),
          calling(
              sgd ? [](Update& u) { u.torch_update(); } : [](Update& u) { u.torch_adamw_update(); },
              at::kFloat, options));
    }
}

void cross_entropy_rates_at(RateMeter& meter, std::int64_t rows, std::int64_t classes) {
  struct Batch {
    at::Tensor logits, labels, score;
  };
  const auto calling = [=, device = meter.device()](at::Tensor (*body)(const Batch&)) -> MakeCall {
    return [=]() -> Call {
      const Batch batch{
          .logits = at::randn({rows, classes}, at::TensorOptions(at::kBFloat16).device(device)),
          .labels = at::randint(classes, {rows}, at::TensorOptions(at::kLong).device(device)),
          .score = make_running_score(device)};
      return [=]() -> std::vector<at::Tensor> { return {body(batch)}; };
    };
  };
  meter.measure({.family = "cross-entropy",
                 .kernel = "loss, score, gradient",
                 .shape = text(rows, " x ", classes),
                 .bytes = rows * (2 * 2 * classes + 8)},
                calling([](const Batch& b) {
                  return cross_entropy_gradient(b.score, b.logits, b.labels, b.logits.size(0),
                                                /*label_smoothing=*/0, /*weight=*/1, {});
                }),
                calling([](const Batch& b) {
                  const at::Tensor odds = at::_log_softmax(b.logits, 1, /*half_to_float=*/false);
                  const auto [loss, weight] =
                      at::nll_loss_forward(odds, b.labels, {}, at::Reduction::Mean, -100);
                  const at::Tensor inner = at::nll_loss_backward(
                      at::ones_like(loss), odds, b.labels, {}, at::Reduction::Mean, -100, weight);
                  return at::_log_softmax_backward_data(inner, odds, 1, at::kBFloat16);
                }));
}

}  // namespace

void cross_entropy_rates(RateMeter& meter) {
  cross_entropy_rates_at(meter, 96, 10);
  cross_entropy_rates_at(meter, 1024, 10);
  cross_entropy_rates_at(meter, 1024, 1000);
}

void weight_copy_rates(RateMeter& meter) {
  for (const std::string& model : kModels) {
    const std::int64_t count = elements_of(copied_weights(model, c10::kCPU));
    meter.measure(
        {.family = "weight copies", .kernel = "BF16", .shape = model, .bytes = 6 * count},
        [=, device = meter.device()]() -> Call {
          std::vector<WeightCopySpec> specs;
          for (const at::Tensor& weight : copied_weights(model, device))
            specs.push_back({.weight = weight});
          const auto copies = std::make_shared<WeightCopies>(specs);
          return [=]() -> std::vector<at::Tensor> {
            copies->refresh();
            return {};
          };
        },
        [=, device = meter.device()]() -> Call {
          const std::vector<at::Tensor> weights = copied_weights(model, device);
          return [=] {
            std::vector<at::Tensor> copies;
            for (const at::Tensor& weight : weights) copies.push_back(weight.to(at::kBFloat16));
            return copies;
          };
        });
  }
}

void update_rates(RateMeter& meter) {
  for (const std::string& model : kModels)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      update_rates_at(meter, model, type);
}

}  // namespace triaccel::bench
