#include "triaccel/trainer/attach/zeroth_order_training.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {

ZerothOrderTraining::ZerothOrderTraining(StepNetwork network,
                                         const ZerothOrderTrainingOptions& options,
                                         c10::Device device)
    : device_(device),
      micro_batch_size_(options.micro_batch_size),
      gauge_(device),
      runner_(network,
              StepRunnerOptions{.optimizer = options.optimizer, .zeroth_order = options.estimates},
              gauge_, device) {
  const std::int64_t layers = network.layer_count;
  require(options.backprop_layers >= 0 && options.backprop_layers < layers, "zeroth_order",
          "backprop_layers must be in [0, ", layers - 1, "], got ", options.backprop_layers);
  plan_.layers.resize(static_cast<std::size_t>(layers));
  for (std::int64_t layer = 0; layer < layers - options.backprop_layers; ++layer)
    plan_.layers[static_cast<std::size_t>(layer)].gradient = GradientSource::ZerothOrder;
}

at::Tensor ZerothOrderTraining::step(std::int64_t samples, const ClosureBatch::Closure& closure,
                                     double learning_rate, double zeroth_order_rate) {
  require(samples > 0, "zeroth_order", "the batch has no samples");
  plan_.batch_size = samples;
  plan_.micro_batch_size = micro_batch_size_ > 0 ? std::min(micro_batch_size_, samples) : samples;
  ClosureBatch batch(samples, closure, device_);
  runner_.run(plan_, batch, learning_rate, zeroth_order_rate);
  return batch.mean_loss();
}

}  // namespace triaccel
