#include "triaccel/optim/elastic_optimizer.h"

#include <utility>

namespace triaccel {

ElasticOptimizer::ElasticOptimizer(const OptimizerOptions& options,
                                   std::vector<ParameterRef> parameters)
    : options_(options), parameters_(std::move(parameters)) {}

bool ElasticOptimizer::follow(const std::vector<LayerPlan>& layers) {
  std::vector<bool> wanted;
  for (const LayerPlan& layer : layers)
    wanted.push_back(layer.gradient == GradientSource::Backprop);
  if (wanted == layers_) return false;
  std::vector<ParameterRef> chosen;
  for (const ParameterRef& parameter : parameters_)
    if (wanted[static_cast<std::size_t>(parameter.layer)]) chosen.push_back(parameter);
  std::unique_ptr<Optimizer> next;
  if (!chosen.empty()) next = make_optimizer(options_, std::move(chosen));
  if (next && inner_) {
    StateMap states;
    for (StateView& view : next->state()) states.emplace(view.name, view);
    for (StateView& view : inner_->state())
      if (const auto found = states.find(view.name); found != states.end())
        found->second = std::move(view);
    next->restore(states);
  }
  inner_ = std::move(next);
  layers_ = std::move(wanted);
  return true;
}

void ElasticOptimizer::update(const UpdateInputs& inputs) {
  if (inner_) inner_->update(inputs);
}

std::vector<StateView> ElasticOptimizer::state() const {
  return inner_ ? inner_->state() : std::vector<StateView>();
}

void ElasticOptimizer::restore(const StateMap& saved) {
  if (inner_) inner_->restore(saved);
}

}  // namespace triaccel
