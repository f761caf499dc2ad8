#include "triaccel/trainer/evaluation.h"

#include <torch/torch.h>

#include <algorithm>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/running_score.h"
#include "triaccel/step/autocast_scope.h"

namespace triaccel {
namespace {

/// Evaluation mode for this scope, then whatever it was.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

void score_batch(const Network& network, const Batch& batch, const Method& method,
                 const at::Tensor& score) {
  const AutocastScope autocast(method.autocast, batch.inputs.device().type(), method.autocast_type);
  const at::Tensor logits = network.forward(batch.inputs);
  const at::Tensor rows = logits.reshape({-1, logits.size(-1)});
  const at::Tensor targets = batch.targets.reshape({-1});
  add_score(score, at::cross_entropy_loss(rows, targets), rows, targets, batch.targets.size(0));
}

}  // namespace

EvaluationReport evaluate(const Network& network, const Dataset& data,
                          std::span<const std::int64_t> ids, const Method& method,
                          std::int64_t batch, c10::Device device,
                          const std::function<void()>& alive) {
  require(!ids.empty(), "evaluate", "there are no samples to evaluate on");
  const Stopwatch watch;
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(*network.module);
  const MemoryPurposeScope purpose(MemoryPurpose::Activations);
  const at::Tensor all = ids_on_device(ids, device);
  const at::Tensor score = make_running_score(device);
  for (std::int64_t first = 0; first < all.numel();) {
    const std::int64_t count = std::min(batch, all.numel() - first);
    try {
      catching_out_of_memory([&] {
        score_batch(network, data.gather(all.narrow(0, first, count), {}), method, score);
      });
      first += count;
      if (alive) alive();
    } catch (const OutOfMemory&) {
      if (batch == 1) throw;
      batch = (batch + 1) / 2;
    }
  }
  const RunningScore total = read_score(score);
  return {.samples = total.samples,
          .loss = total.loss_sum / static_cast<double>(std::max<std::int64_t>(1, total.samples)),
          .accuracy = static_cast<double>(total.correct) /
                      static_cast<double>(std::max<std::int64_t>(1, total.predictions)),
          .seconds = watch.seconds()};
}

}  // namespace triaccel
