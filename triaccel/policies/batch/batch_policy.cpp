#include "triaccel/policies/batch/batch_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/policies/batch/batch_rules.h"

namespace triaccel {
namespace {

/// Hash of everything memory depends on besides the batch: precisions, saved formats, gradient
/// sources.
std::uint64_t mix_of(StepPlan plan) {
  plan.batch_size = plan.micro_batch_size = 0;
  return shape_hash(plan);
}

/// False if the interval holds only short steps, the last of an epoch.
bool has_full_step(const StepReport& report, const StepPlan& ran) {
  const std::int64_t known = report.largest_step;
  return (known > 0 ? known : report.interval_samples) >= ran.batch_size;
}

}  // namespace

BatchPolicy::BatchPolicy(const ControlOptions& options, const StepPlan& start)
    : options_(options.batch),
      set_(options.set),
      guards_(options.guards),
      sizes_(options.batch, start),
      start_batch_(start.batch_size),
      start_pass_(start.micro_batch_size),
      start_scale_(start.learning_rate_scale),
      robust_(options.batch),
      retry_wait_(options.batch.retry_ticks) {}

double BatchPolicy::limit_bytes(const StepReport& report) const {
  const std::int64_t budget = report.memory.limit;
  const std::int64_t device = options_.device_bytes;
  return static_cast<double>(budget > 0 && device > 0 ? std::min(budget, device)
                                                      : std::max(budget, device));
}

double BatchPolicy::used_bytes(const StepReport& report) const {
  return static_cast<double>(options_.signal == MemorySignal::Peak ? report.memory.peak
                                                                   : report.memory.reserved);
}

void BatchPolicy::apply(const StepReport& report, const StepPlan& ran, const GradientNoise& noise,
                        StepPlan& plan, PolicyEvents& events) {
  highest_rate_ = std::max(highest_rate_, report.learning_rate);
  if (options_.mode == BatchMode::Off) return grow_back(plan, events);
  const double limit = limit_bytes(report);
  if (limit > 0) {
    if (set_ == PolicySet::Paper)
      apply_paper(report, ran, plan, events);
    else
      apply_robust(report, ran, noise, plan);
    if (plan.batch_size != ran.batch_size || plan.micro_batch_size != ran.micro_batch_size)
      events.push_back(text("batch ", ran.batch_size, " (", ran.micro_batch_size, " per pass) -> ",
                            plan.batch_size, " (", plan.micro_batch_size, "): memory at ",
                            std::llround(100 * used_bytes(report) / limit), " % of the limit",
                            report.memory_retries > 0 ? ", after running out of memory" : ""));
  }
  if (options_.mode == BatchMode::Elastic)
    plan.learning_rate_scale = static_cast<float>(
        start_scale_ * rate_for_batch(options_.rate, start_batch_, plan.batch_size, noise));
}

void BatchPolicy::apply_paper(const StepReport& report, const StepPlan& ran, StepPlan& plan,
                              PolicyEvents& events) const {
  const bool micro = options_.mode == BatchMode::Micro;
  const bool retried = report.memory_retries > 0;
  if (retried && micro) return;  // the pass was already reduced
  if (!retried && !has_full_step(report, ran)) return;
  const double limit = limit_bytes(report);
  // After a failed allocation the recorded peak is below the limit although more was needed.
  const double used = retried ? 2 * limit : used_bytes(report);
  if (retried) events.push_back("guard: running out of memory counts as memory use above rho_high");
  const std::int64_t before = micro ? ran.micro_batch_size : ran.batch_size;
  std::int64_t after = paper_batch(before, used, limit, options_);
  if (guards_.batch_rounding && after != before && after % options_.bucket != 0) {
    const std::int64_t bucket = options_.bucket;
    const std::int64_t down = after / bucket * bucket;
    after = after > before ? std::max(down, (before / bucket + 1) * bucket) : down;
    events.push_back(text("guard: batch size rounded to ", after));
  }
  const std::int64_t smallest = micro ? sizes_.smallest() : sizes_.smallest_batch();
  const std::int64_t largest = micro ? sizes_.largest() : sizes_.largest_batch();
  if (guards_.batch_bounds && (after < smallest || after > largest)) {
    after = std::clamp(after, smallest, largest);
    if (after != before) events.push_back(text("guard: batch size limited to ", after));
  }
  after = std::max<std::int64_t>(1, after);
  if (micro) {
    plan.micro_batch_size = std::min(after, plan.batch_size);
  } else if (after != before || retried) {
    plan.batch_size = after;
    plan.micro_batch_size =
        std::min(after, std::max(sizes_.smallest(), divide_up(after, sizes_.passes())));
  }
}

void BatchPolicy::apply_robust(const StepReport& report, const StepPlan& ran,
                               const GradientNoise& noise, StepPlan& plan) {
  BatchInput input{.mix = mix_of(ran),
                   .mix_changes = mix_of(ran) != mix_of(plan),
                   .pass = samples_per_pass(ran),
                   .limit_bytes = limit_bytes(report),
                   .fixed_bytes = fixed_bytes(report.memory),
                   .retried = report.memory_retries > 0,
                   .largest_pass = sizes_.largest()};
  const bool planned = options_.planned_pass > 0 && report.memory.limit == options_.planned_limit;
  if (planned) {
    if (input.pass == options_.planned_pass && !input.retried) return;
    input.largest_pass = std::min(input.largest_pass, options_.planned_pass);
  }
  if (has_full_step(report, ran)) input.used_bytes = used_bytes(report);
  const bool elastic = options_.mode == BatchMode::Elastic;
  if (elastic) {
    // The cap only limits growth; it never shrinks the batch.
    const double most = largest_useful_batch(report, noise) / static_cast<double>(sizes_.passes());
    if (most < static_cast<double>(input.largest_pass))
      input.largest_pass = static_cast<std::int64_t>(most);
  }
  const std::int64_t next = robust_.next_pass(input, sizes_);
  const auto most = static_cast<double>(options_.planned_pass);
  if (planned && next > input.pass && next >= sizes_.at_most(most)) {  // as it was planned
    plan.batch_size = start_batch_;
    plan.micro_batch_size = options_.planned_pass;
    return;
  }
  const bool as_before =
      next == input.pass && (!elastic || passes_per_step(ran) == sizes_.passes());
  if (!as_before) sizes_.set(plan, next);
}

double BatchPolicy::largest_useful_batch(const StepReport& report,
                                         const GradientNoise& noise) const {
  const auto start = static_cast<double>(start_batch_);
  double most = std::numeric_limits<double>::infinity();
  if (options_.kappa > 0) {
    if (options_.wait_for_noise && !noise.measured()) return start;
    if (const std::optional<double> scale = noise.scale()) most = options_.kappa * *scale;
  }
  if (options_.grow_as_rate_falls && report.learning_rate > 0)
    most = std::min(most, start * highest_rate_ / report.learning_rate);
  return std::max(start, most);  // never below the user's batch size
}

void BatchPolicy::grow_back(StepPlan& plan, PolicyEvents& events) {
  if (plan.micro_batch_size >= start_pass_ || --retry_in_ > 0) return;
  plan.micro_batch_size = std::min(2 * plan.micro_batch_size, start_pass_);
  grown_back_to_ = plan.micro_batch_size;
  retry_in_ = retry_wait_;
  events.push_back(text("trying forward passes of ", plan.micro_batch_size,
                        " samples again after an earlier out-of-memory error"));
}

void BatchPolicy::out_of_memory(const StepPlan& failed) {
  if (options_.mode == BatchMode::Off) {
    // One out-of-memory error may halve the passes several times; only a failed retry doubles the
    // delay.
    if (failed.micro_batch_size == grown_back_to_) retry_wait_ *= 2;
    grown_back_to_ = 0;
    retry_in_ = retry_wait_;
  } else if (set_ == PolicySet::Robust) {
    robust_.out_of_memory(mix_of(failed), samples_per_pass(failed));
  }
}

void BatchPolicy::save(std::vector<StateView>& state) const {
  robust_.save(state);
  state.push_back(number_state<std::int64_t>(
      "batch.memory", {options_.device_bytes, retry_wait_, retry_in_, grown_back_to_}));
  state.push_back(number_state<double>("batch.rate", {highest_rate_}));
}

void BatchPolicy::restore(const StateMap& saved) {
  robust_.restore(saved);
  assign_numbers(numbers_from<std::int64_t>(saved, "batch.memory", 4), options_.device_bytes,
                 retry_wait_, retry_in_, grown_back_to_);
  highest_rate_ = numbers_from<double>(saved, "batch.rate", 1)[0];
}

}  // namespace triaccel
