#include "triaccel/policies/controller.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

constexpr std::size_t kMostEvents = 8;  // of one tick

void shorten(PolicyEvents& events) {
  if (events.size() <= kMostEvents) return;
  const std::size_t more = events.size() - (kMostEvents - 1);
  events.resize(kMostEvents - 1);
  events.push_back(text("and ", more, " more"));
}

const ControlOptions& checked(const ControlOptions& options) {
  check_options(options);
  return options;
}

const StepPlan& checked(const StepPlan& start, std::size_t layers) {
  require(start.layers.size() == layers, "Controller", "the first plan has ", start.layers.size(),
          " layers, the network has ", layers);
  require(start.micro_batch_size >= 1 && start.micro_batch_size <= start.batch_size, "Controller",
          "micro_batch_size must lie in [1, batch_size ", start.batch_size, "], got ",
          start.micro_batch_size);
  return start;
}

}  // namespace

PlanSchedule::PlanSchedule(std::vector<ScheduledPlan> plans) : plans_(std::move(plans)) {
  constexpr std::string_view who = "--replay";
  require(!plans_.empty(), who, "the file holds no plan");
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const StepPlan& plan = plans_[i].plan;
    require(i == 0 || plans_[i].step > plans_[i - 1].step, who, "plan ", i,
            " must start after step ", i == 0 ? 0 : plans_[i - 1].step, ", got ", plans_[i].step);
    require(plan.micro_batch_size >= 1 && plan.micro_batch_size <= plan.batch_size, who, "plan ", i,
            ": micro_batch_size must lie in [1, batch_size ", plan.batch_size, "], got ",
            plan.micro_batch_size);
  }
}

const StepPlan& PlanSchedule::plan_after(std::int64_t step, const StepPlan& current) const {
  const auto after = std::upper_bound(
      plans_.begin(), plans_.end(), step,
      [](std::int64_t wanted, const ScheduledPlan& plan) { return wanted < plan.step; });
  if (after == plans_.begin()) return current;
  const StepPlan& plan = std::prev(after)->plan;
  require(plan.layers.size() == current.layers.size(), "--replay", "the plan for step ", step,
          " has ", plan.layers.size(), " layers, but the model has ", current.layers.size(),
          "; replay it with the model it was recorded from");
  return plan;
}

Controller::Controller(const ControlSetup& setup)
    : options_(checked(setup.options)),
      first_plan_(checked(setup.plan, setup.kinds.size())),
      probe_every_(setup.probe_every),
      smallest_pass_(setup.smallest_pass),
      noise_(setup.kinds.size()),
      precision_(options_, setup.kinds),
      curvature_(options_, first_plan_, setup.normalized),
      batch_(options_, first_plan_),
      replayed_(setup.replayed) {
  if (setup.moves_boundary)
    boundary_.emplace(BoundaryOptions{.largest = std::ssize(first_plan_.layers)});
  if (setup.zeroth_order) alarm_.emplace();
  if (setup.activations) activations_.emplace(*setup.activations);
}

StepPlan Controller::first_plan() const {
  return replayed_ ? replayed_->plan_after(0, first_plan_) : first_plan_;
}

bool Controller::probe_due(std::int64_t step) const {
  return probe_every_ > 0 && step > 0 && step % probe_every_ == 0;
}

std::optional<StepPlan> Controller::replayed_change(std::int64_t step,
                                                    const StepPlan& current) const {
  if (!replayed_ || step == 0) return {};
  const StepPlan& scheduled = replayed_->plan_after(step, current);
  if (scheduled == replayed_->plan_after(step - 1, current)) return {};
  return scheduled;
}

Decision Controller::next(const StepReport& report, const StepPlan& current) {
  require(current.layers.size() == first_plan_.layers.size(), "Controller::next", "the plan has ",
          current.layers.size(), " layers, the network has ", first_plan_.layers.size());
  Decision decision{.plan = current};
  if (!replayed_) {
    if (report.curvature) noise_.add(*report.curvature);
    if (options_.curvature_on && report.curvature)
      curvature_.add(*report.curvature, decision.events);
    if (options_.precision_on)
      precision_.apply(report, curvature_.promoted(), noise_, decision.plan, decision.events);
    if (options_.curvature_on)
      curvature_.apply(report.learning_rate * static_cast<double>(current.learning_rate_scale),
                       decision.plan);
    batch_.apply(report, current, noise_, decision.plan, decision.events);
    shorten(decision.events);
    if (boundary_) boundary_->apply(report, decision.plan, decision.events);
    if (alarm_)
      if (const auto rise = alarm_->after(report.loss, report.step))
        decision.events.push_back(*rise +
                                  "; try a lower --zo-lr ('triaccel find-lr' suggests one)");
  }
  if (activations_) activations_->apply(report, decision.plan, decision.events);
  return decision;
}

std::optional<ProfileRequest> Controller::profile_due(std::int64_t step, const StepPlan& plan,
                                                      bool first) {
  if (!activations_ || !(first || activations_->profile_due(step))) return {};
  return activations_->start_profile(step, plan, /*restored=*/first && !plan.saved.empty());
}

void Controller::postpone_profile(std::int64_t step) {
  if (activations_) activations_->postpone_profile(step);
}

Decision Controller::after_profile(const ActivationProfile& found, Decision last) {
  last.profile = activations_->take(found, last.plan, last.events);
  return last;
}

std::optional<StepPlan> Controller::out_of_memory(const StepPlan& failed) {
  batch_.out_of_memory(failed);
  auto smaller = smaller_plan(failed, smallest_pass_);
  if (!smaller && boundary_) smaller = boundary_->out_of_memory(failed);
  return smaller;
}

Decision Controller::after_rollback(std::int64_t step, const StepPlan& restored) {
  Decision decision{.plan = restored};
  if (activations_) activations_->after_rollback(step, decision.plan, decision.events);
  return decision;
}

PolicyEvents Controller::after_epoch(double accuracy) {
  PolicyEvents events;
  if (activations_) activations_->after_epoch(accuracy, events);
  return events;
}

std::vector<StateView> Controller::state() const {
  std::vector<StateView> state;
  noise_.save(state);
  precision_.save(state);
  curvature_.save(state);
  batch_.save(state);
  if (boundary_) std::ranges::move(boundary_->state(), std::back_inserter(state));
  if (alarm_) std::ranges::move(alarm_->state(), std::back_inserter(state));
  if (activations_) std::ranges::move(activations_->state(), std::back_inserter(state));
  return state;
}

void Controller::restore(const StateMap& saved) {
  Controller restored = *this;  // whatever is missing is missed before anything changes
  restored.noise_.restore(saved);
  restored.precision_.restore(saved);
  restored.curvature_.restore(saved);
  restored.batch_.restore(saved);
  if (restored.boundary_) restored.boundary_->restore(saved);
  if (restored.alarm_) restored.alarm_->restore(saved);
  if (restored.activations_) restored.activations_->restore(saved);
  *this = std::move(restored);
}

std::optional<StepPlan> smaller_plan(const StepPlan& current, std::int64_t smallest_pass) {
  if (current.micro_batch_size <= smallest_pass) return std::nullopt;
  StepPlan smaller = current;
  smaller.micro_batch_size = std::max((current.micro_batch_size + 1) / 2, smallest_pass);
  return smaller;
}

}  // namespace triaccel
