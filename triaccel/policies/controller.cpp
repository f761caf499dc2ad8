#include "triaccel/policies/controller.h"

#include <algorithm>

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

Controller::Controller(const ControlOptions& options, std::vector<LayerKind> kinds,
                       const StepPlan& start)
    : options_(checked(options)),
      layers_(kinds.size()),
      noise_(kinds.size()),
      precision_(options, kinds),
      curvature_(options, checked(start, kinds.size())),
      batch_(options, start) {}

Decision Controller::next(const StepReport& report, const StepPlan& current) {
  require(current.layers.size() == layers_, "Controller::next", "the plan has ",
          current.layers.size(), " layers, the network has ", layers_);
  Decision decision{.plan = current};
  if (report.curvature) noise_.add(*report.curvature);
  if (options_.curvature_on && report.curvature) curvature_.add(*report.curvature, decision.events);
  if (options_.precision_on)
    precision_.apply(report, curvature_.promoted(), noise_, decision.plan, decision.events);
  if (options_.curvature_on)
    curvature_.apply(report.learning_rate * static_cast<double>(current.learning_rate_scale),
                     decision.plan);
  batch_.apply(report, current, noise_, decision.plan, decision.events);
  shorten(decision.events);
  return decision;
}

std::optional<StepPlan> Controller::out_of_memory(const StepPlan& failed,
                                                  std::int64_t smallest_pass) {
  batch_.out_of_memory(failed);
  return smaller_plan(failed, smallest_pass);
}

std::vector<StateView> Controller::state() const {
  std::vector<StateView> state;
  noise_.save(state);
  precision_.save(state);
  curvature_.save(state);
  batch_.save(state);
  return state;
}

void Controller::restore(const StateMap& saved) {
  Controller restored = *this;  // whatever is missing is missed before anything changes
  restored.noise_.restore(saved);
  restored.precision_.restore(saved);
  restored.curvature_.restore(saved);
  restored.batch_.restore(saved);
  *this = std::move(restored);
}

std::optional<StepPlan> smaller_plan(const StepPlan& current, std::int64_t smallest_pass) {
  if (current.micro_batch_size <= smallest_pass) return std::nullopt;
  StepPlan smaller = current;
  smaller.micro_batch_size = std::max((current.micro_batch_size + 1) / 2, smallest_pass);
  return smaller;
}

}  // namespace triaccel
