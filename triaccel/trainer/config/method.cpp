#include "triaccel/trainer/config/method.h"

#include "triaccel/base/error.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"

namespace triaccel {

Method method_on(Choice<TrainMethod> name, c10::DeviceType device) {
  switch (name) {
    case TrainMethod::Fp32:
      return {};
    case TrainMethod::Triaccel:
      return {.per_layer = true, .layer_precision = Precision::Bf16};
    case TrainMethod::Zo:
      return {.zeroth_order = true, .backprop = false};
    case TrainMethod::ElasticZo:
      return {.zeroth_order = true};
    case TrainMethod::ElasticZoInt8:
      throw UsageError(
          "[--method] 'elasticzo-int8' trains built-in networks, by 'triaccel train' or start_run");
    case TrainMethod::Amp:
      break;
  }
  if (device == c10::kCUDA)
    return {.autocast = true,
            .autocast_type = at::kHalf,
            .loss_scaling = true,
            .layer_precision = Precision::Fp16};
  return {.autocast = true, .autocast_type = at::kBFloat16, .layer_precision = Precision::Bf16};
}

std::string memory_advice(Choice<TrainMethod> method, bool limited) {
  const bool planned = method == TrainMethod::Fp32 || method == TrainMethod::Amp ||
                       method == TrainMethod::Triaccel;  // triaccel plan knows no others
  std::string advice = limited && planned ? "raise --budget ('triaccel plan' shows the least) or "
                       : limited          ? "raise --budget or "
                                          : "";
  return advice + "choose a smaller " + (planned ? "" : "--batch, a smaller ") +
         "model or smaller images";
}

StepPlan first_plan(const Method& method, std::int64_t batch, std::int64_t accumulate,
                    std::int64_t layer_count, std::int64_t bp_layers) {
  StepPlan plan{.batch_size = batch * accumulate,
                .micro_batch_size = batch,
                .layers = {static_cast<std::size_t>(layer_count),
                           LayerPlan{.compute = method.layer_precision}}};
  if (method.zeroth_order) set_boundary(plan, method.backprop ? bp_layers : 0);
  return plan;
}

}  // namespace triaccel
