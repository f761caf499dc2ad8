#include "triaccel/trainer/evaluate/evaluator.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/device/cpu_memory.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/loss_data/cross_entropy.h"

namespace triaccel {
namespace {

/// All that shapes a pass: the plan, the data set, the samples and where it reads their numbers.
std::uint64_t key_of(std::uint64_t shape, const Dataset& data, const at::Tensor& ids) {
  constexpr std::uint64_t evaluation = 0x65766c;  // apart from the keys of steps
  std::uint64_t key =
      mixed_hash(mixed_hash(evaluation, shape), reinterpret_cast<std::uintptr_t>(&data));
  key = mixed_hash(key, static_cast<std::uint64_t>(ids.numel()));
  return mixed_hash(key, reinterpret_cast<std::uintptr_t>(ids.const_data_ptr()));
}

/// Samples without a finite loss are not scored: they count as wrong, and the loss as no better
/// than any other.
EvaluationReport report_of(const RunningScore& total, double samples) {
  const auto scored = static_cast<double>(total.samples);
  const double accuracy = static_cast<double>(total.correct) /
                          static_cast<double>(std::max<std::int64_t>(1, total.predictions));
  EvaluationReport report;
  report.samples = total.samples;
  report.loss =
      scored < samples ? std::numeric_limits<double>::infinity() : total.loss_sum / samples;
  report.accuracy = accuracy * scored / samples;
  return report;
}

}  // namespace

Evaluator::Evaluator(Network network, c10::Device device, GraphCache* graphs, LossFunction loss,
                     MetricFunction metric)
    : network_(std::move(network)),
      device_(device),
      graphs_(loss || metric ? nullptr : graphs),
      loss_(std::move(loss)),
      metric_(std::move(metric)) {}

void Evaluator::score_pass(const Dataset& data, const at::Tensor& ids,
                           const EvaluationRules& rules) {
  const Batch batch = data.gather(ids, {});
  const ReadingWeights weights(rules.forward.layers);
  const at::Tensor logits = forward_pass(network_.forward, batch.inputs, rules.forward);
  if (metric_)
    metric_sum_ += metric_(logits, batch.targets).to(at::kDouble) * batch.targets.size(0);
  if (loss_)
    return add_measured_loss(score_, loss_(logits, batch.targets).to(at::kFloat).reshape({}),
                             batch.targets.size(0));
  at::Tensor counts;  // before anything is added: what fails is done again
  if (by_class_.defined()) {
    const at::Tensor right = logits.argmax(-1).eq(batch.targets).to(at::kLong);
    counts = at::stack({at::ones_like(right), right});
  }
  add_cross_entropy(score_, logits.reshape({-1, logits.size(-1)}).contiguous(),
                    batch.targets.reshape({-1}).contiguous(), batch.targets.size(0));
  if (by_class_.defined()) by_class_.index_add_(1, batch.targets, counts);
}

EvaluationReport Evaluator::evaluate(const Dataset& data, std::span<const std::int64_t> ids,
                                     const EvaluationRules& rules,
                                     const std::function<void()>& alive) {
  require(!ids.empty(), "evaluate", "there are no samples to evaluate on");
  const Stopwatch watch;
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(*network_.module);
  const MemoryPurposeScope purpose(MemoryPurpose::Activations);
  std::int64_t batch = std::min(rules.batch, static_cast<std::int64_t>(ids.size()));
  const std::vector<std::string> names = data.class_names();
  at::Tensor all;
  catching_out_of_memory([&] {
    all = ids_on_device(ids, device_);
    if (!ids_.defined() || ids_.numel() < batch) ids_ = at::empty({batch}, all.options());
    if (!score_.defined()) score_ = make_running_score(device_);
    if (metric_) metric_sum_ = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
    const std::int64_t classes = std::ssize(names);
    if (classes > 0 && !by_class_.defined()) by_class_ = at::empty({2, classes}, all.options());
  });
  score_.zero_();
  if (by_class_.defined()) by_class_.zero_();
  for (std::int64_t first = 0; first < all.numel();) {
    const std::int64_t count = std::min(batch, all.numel() - first);
    const at::Tensor pass = ids_.narrow(0, 0, count).copy_(all.narrow(0, first, count));
    try {
      catching_out_of_memory([&] {
        const auto from = ids.subspan(static_cast<std::size_t>(first));
        data.prepare(from.first(static_cast<std::size_t>(count)),
                     from.subspan(static_cast<std::size_t>(count)));
      });
      const auto work = [&](Enqueued enqueued) {
        if (enqueued != Enqueued::Rehearsed) return score_pass(data, pass, rules);
        const at::Tensor before = score_.clone();
        const at::Tensor classes_before = by_class_.defined() ? by_class_.clone() : at::Tensor();
        score_pass(data, pass, rules);
        score_.copy_(before);
        if (by_class_.defined()) by_class_.copy_(classes_before);
      };
      if (graphs_ != nullptr) {
        graphs_->run(key_of(rules.shape, data, pass), count, work);
      } else {
        catching_out_of_memory([&] { work(Enqueued::Eagerly); });
      }
      first += count;
      if (alive) alive();
    } catch (const OutOfMemory&) {
      if (batch == 1) throw;
      batch = (batch + 1) / 2;
    }
  }
  const auto samples = static_cast<double>(ids.size());
  EvaluationReport report = report_of(read_score(score_), samples);
  if (metric_) report.accuracy = metric_sum_.item<double>() / samples;
  if (by_class_.defined()) {
    const at::Tensor counts = by_class_.cpu();
    const auto* const first = counts.const_data_ptr<std::int64_t>();
    report.class_names = names;
    report.class_samples.assign(first, first + names.size());
    report.class_correct.assign(first + names.size(), first + 2 * names.size());
  }
  report.seconds = watch.seconds();
  return report;
}

}  // namespace triaccel
