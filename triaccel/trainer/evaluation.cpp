#include "triaccel/trainer/evaluation.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/running_score.h"
#include "triaccel/trainer/evaluation_mode.h"

namespace triaccel {
namespace {

void score_batch(const Network& network, const Batch& batch, const ForwardRules& rules,
                 const at::Tensor& score) {
  at::Tensor logits;
  {
    const ForwardScope scope(rules, batch.inputs.device().type());
    logits = network.forward(batch.inputs).to(at::kFloat);
  }
  const at::Tensor rows = logits.reshape({-1, logits.size(-1)});
  const at::Tensor targets = batch.targets.reshape({-1});
  add_score(score, at::cross_entropy_loss(rows, targets), rows, targets, batch.targets.size(0));
}

}  // namespace

EvaluationReport evaluate(const Network& network, const Dataset& data,
                          std::span<const std::int64_t> ids, const ForwardRules& rules,
                          std::int64_t batch, c10::Device device,
                          const std::function<void()>& alive) {
  require(!ids.empty(), "evaluate", "there are no samples to evaluate on");
  const Stopwatch watch;
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(*network.module);
  const MemoryPurposeScope purpose(MemoryPurpose::Activations);
  const at::Tensor all = catching_out_of_memory([&] { return ids_on_device(ids, device); });
  const at::Tensor score = catching_out_of_memory([&] { return make_running_score(device); });
  for (std::int64_t first = 0; first < all.numel();) {
    const std::int64_t count = std::min(batch, all.numel() - first);
    try {
      catching_out_of_memory([&] {
        score_batch(network, data.gather(all.narrow(0, first, count), {}), rules, score);
      });
      first += count;
      if (alive) alive();
    } catch (const OutOfMemory&) {
      if (batch == 1) throw;
      batch = (batch + 1) / 2;
    }
  }
  const RunningScore total = read_score(score);
  const auto samples = static_cast<double>(ids.size());
  const auto scored = static_cast<double>(total.samples);
  const double accuracy = static_cast<double>(total.correct) /
                          static_cast<double>(std::max<std::int64_t>(1, total.predictions));
  // Samples without a finite loss are not scored: they count as wrong, and the loss as no better
  // than any other.
  return {
      .samples = total.samples,
      .loss = scored < samples ? std::numeric_limits<double>::infinity() : total.loss_sum / samples,
      .accuracy = accuracy * scored / samples,
      .seconds = watch.seconds()};
}

}  // namespace triaccel
