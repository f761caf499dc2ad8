#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "triaccel/core/precision.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/trainer/config/choices.h"

namespace triaccel {

/// How a method computes, on one kind of device.
struct Method {
  bool autocast = false;
  at::ScalarType autocast_type = at::kFloat;
  bool loss_scaling = false;
  bool per_layer = false;     // each layer in the precision its plan names, chosen as training goes
  bool zeroth_order = false;  // layers may train by zeroth-order estimates …
  bool backprop = true;       // … and some must not: the last ones
  Precision layer_precision = Precision::Fp32;  // what its first plan says of every layer
};

/// amp is torch's autocast as the papers compare with it: FP16 with a dynamic loss scale on a GPU,
/// BF16 on a CPU, where FP16 has no fast kernels.
Method method_on(Choice<TrainMethod> name, c10::DeviceType device);

/// What to try where a run does not fit in memory or, `limited`, in its budget.
std::string memory_advice(Choice<TrainMethod> method, bool limited);

/// The plan a run starts with; `bp_layers` of the last layers backpropagate where method
/// `elasticzo` has others, too.
StepPlan first_plan(const Method& method, std::int64_t batch, std::int64_t accumulate,
                    std::int64_t layer_count, std::int64_t bp_layers = 0);

}  // namespace triaccel
