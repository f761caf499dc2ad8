#include "triaccel/trainer/config/method.h"

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"

namespace triaccel {

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names = {"fp32", "amp",       "triaccel",
                                                 "zo",   "elasticzo", "elasticzo-int8"};
  return names;
}

Method method_on(std::string_view name, c10::DeviceType device) {
  if (name == "fp32") return {};
  if (name == "triaccel") return {.per_layer = true, .layer_precision = Precision::Bf16};
  if (name == "zo") return {.zeroth_order = true, .backprop = false};
  if (name == "elasticzo") return {.zeroth_order = true};
  require(name != "elasticzo-int8", "--method",
          "'elasticzo-int8' trains built-in networks, by 'triaccel train' or start_run");
  require(name == "amp", "--method", "unknown method '", name, "'",
          suggestion(name, method_names()));
  if (device == c10::kCUDA)
    return {.autocast = true,
            .autocast_type = at::kHalf,
            .loss_scaling = true,
            .layer_precision = Precision::Fp16};
  return {.autocast = true, .autocast_type = at::kBFloat16, .layer_precision = Precision::Bf16};
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
