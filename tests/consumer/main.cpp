// An outside program: builds a network, plans a step for it and sends one image through.

#include <ATen/ops/zeros.h>
#include <triaccel/core/step_plan.h>
#include <triaccel/models/model_zoo.h>

#include <cstdio>

int main() {
  const triaccel::Network network =
      triaccel::make_model({.name = "lenet5", .input_channels = 1, .classes = 7, .image_size = 28});

  triaccel::StepPlan plan = {.batch_size = 64, .micro_batch_size = 64};
  plan.layers.resize(static_cast<std::size_t>(network.layers.size()));
  triaccel::StepPlan slower = plan;
  slower.layers.front().learning_rate_scale = 0.5f;
  if (plan_hash(plan) == plan_hash(slower) || shape_hash(plan) != shape_hash(slower)) return 1;

  const at::Tensor logits = network.forward(at::zeros({1, 1, 28, 28}));
  if (logits.size(1) != 7) return 1;
  std::printf("%s: %lld layers, plan %016llx\n", network.name.c_str(),
              static_cast<long long>(network.layers.size()),
              static_cast<unsigned long long>(plan_hash(plan)));
}
