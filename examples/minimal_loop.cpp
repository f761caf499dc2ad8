// The step without the trainer: your loop, your schedule, our plan, memory gauge and fused update.
#include <torch/torch.h>

#include <iostream>

#include "triaccel/data/epoch_order.h"
#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/step/step_runner.h"
#include "triaccel/trainer/loop/network_state.h"

int main() {
  using namespace triaccel;
  const c10::Device device(c10::kCPU);
  MemoryGauge gauge(device);
  gauge.set_limit(std::int64_t{200} << 20);

  const LoadedData data = load_data({.name = "synthetic"}, device);
  const Network network = make_model({.name = "lenet5", .input_channels = 3, .classes = 10});
  StepRunner runner({.forward = network.forward,
                     .parameters = parameters_of(network),
                     .buffers = buffers_of(network),
                     .layer_count = network.layers.size()},
                    {.optimizer = {.momentum = 0.9}}, gauge, device);

  const StepPlan plan{
      .batch_size = 64,
      .micro_batch_size = 64,
      .layers = std::vector<LayerPlan>(static_cast<std::size_t>(network.layers.size()))};
  Sampler sampler(data.training_ids, /*seed=*/1);
  EpochOrder order(device);
  StepReport first, last;
  while (sampler.epoch() < 2) {
    const at::Tensor ids = order.upcoming(sampler, plan.batch_size);
    runner.run(plan, *data.train, ids, {}, /*learning_rate=*/0.05);
    sampler.take(ids.numel());
    if (sampler.cursor() != 0) continue;
    last = runner.collect();  // the only place where this loop waits for the device
    if (sampler.epoch() == 1) first = last;
    std::cout << "epoch " << sampler.epoch() << ": loss " << last.loss << ", accuracy "
              << 100 * last.accuracy << " %, peak " << last.memory.peak << " bytes\n";
  }
  return last.loss < first.loss ? 0 : 1;
}
