#include "triaccel/layers/execution/prepared_weights.h"

#include <ATen/ATen.h>

#include <utility>

namespace triaccel {

PreparedWeights::PreparedWeights(std::vector<at::Tensor> weights)
    : weights_(std::move(weights)), wanted_(weights_.size()), index_(weights_.size()) {}

void PreparedWeights::make(SideStream* side) {
  std::vector<WeightCopySpec> specs;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!wanted_[i]) continue;
    index_[i] = specs.size();
    specs.push_back({.weight = weights_[i], .type = wanted_[i]->type, .part = wanted_[i]->part});
  }
  made_ = wanted_;
  if (specs.empty()) return;
  copies_.emplace(std::move(specs));
  side_ = side;
  if (side == nullptr) return copies_->refresh();
  side->run([&] { copies_->refresh(); }, {});
}

void PreparedWeights::join() {
  if (side_ != nullptr) std::exchange(side_, nullptr)->join();
}

void PreparedWeights::drop() {
  copies_.reset();
  made_.clear();
  side_ = nullptr;
}

void PreparedWeights::drop(std::int64_t layer) {
  const auto i = static_cast<std::size_t>(layer);
  if (!copies_ || !made_[i]) return;
  copies_->drop(index_[i]);
  made_[i].reset();
}

void PreparedWeights::expect_nothing() {
  drop();
  wanted_.assign(weights_.size(), std::nullopt);
}

std::optional<at::Tensor> PreparedWeights::ask(std::int64_t layer, const WeightPart& part,
                                               at::ScalarType type) {
  const auto i = static_cast<std::size_t>(layer);
  const Wanted wanted{.part = part, .type = type};
  wanted_[i] = wanted;
  if (!copies_ || made_[i] != wanted) return {};
  join();
  return copies_->copy(index_[i]);
}

}  // namespace triaccel
