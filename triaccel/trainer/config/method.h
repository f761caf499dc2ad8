#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/precision.h"
#include "triaccel/core/step_plan.h"

namespace triaccel {

/// How a method computes, on one kind of device.
struct Method {
  bool autocast = false;
  at::ScalarType autocast_type = at::kFloat;
  bool loss_scaling = false;
  bool per_layer = false;     // each layer in the precision its plan names, chosen as training goes
  bool zeroth_order = false;  // layers may train by the loss alone …
  bool backprop = true;       // … and some must not: the last ones
  Precision layer_precision = Precision::Fp32;  // what its first plan says of every layer
};

/// The methods --method knows.
const std::vector<std::string>& method_names();

/// fp32: everything in FP32, TF32 off.
/// amp: torch's autocast as the papers compare with it: FP16 with a dynamic loss scale on a GPU,
/// BF16 on a CPU, where FP16 has no fast kernels.
/// triaccel: the control loop.
/// zo: every layer by the loss alone, in FP32. elasticzo: the last layers by backpropagation.
Method method_on(std::string_view name, c10::DeviceType device);

/// The plan a run starts with; `bp_layers` of the last layers backpropagate where method
/// `elasticzo` has others, too.
StepPlan first_plan(const Method& method, std::int64_t batch, std::int64_t accumulate,
                    std::int64_t layer_count, std::int64_t bp_layers = 0);

}  // namespace triaccel
