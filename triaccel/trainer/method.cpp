#include "triaccel/trainer/method.h"

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"

namespace triaccel {

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names = {"fp32", "amp", "triaccel"};
  return names;
}

Method method_on(std::string_view name, c10::DeviceType device) {
  if (name == "fp32") return {};
  if (name == "triaccel") return {.per_layer = true, .layer_precision = Precision::Bf16};
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
                    std::int64_t layer_count) {
  return {.batch_size = batch * accumulate,
          .micro_batch_size = batch,
          .layers = {static_cast<std::size_t>(layer_count),
                     LayerPlan{.compute = method.layer_precision}}};
}

}  // namespace triaccel
