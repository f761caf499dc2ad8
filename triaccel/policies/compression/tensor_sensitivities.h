#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"

namespace triaccel {

/// Plans under which one stored tensor is lossy, and what is derived from it; all others are kept
/// without loss.
struct LonePlan {
  std::size_t tensor = 0;
  std::vector<SavedPlan> plans = {};  // by tensor
};

/// One for each tensor that these plans store with loss.
std::vector<LonePlan> lone_plans(std::span<const SavedStatistics> tensors,
                                 std::span<const SavedPlan> plans);

/// The measured sensitivity of the gradient to the error of each tensor, as a factor on what is
/// usual for its kind: between tensors of a network it differs a thousandfold. Errors of tensors
/// add up in the gradient, so that tensors measured one by one predict the error of all.
class TensorSensitivities {
 public:
  /// `errors`: the relative squared error of the gradient under each of `lone`. False: they say
  /// nothing, as none is a positive number.
  bool learn(std::span<const SavedStatistics> tensors, std::span<const LonePlan> lone,
             std::span<const double> errors);

  /// Whether other tensors were measured than these: a network may come to save other ones.
  bool are_of_others(std::span<const SavedStatistics> tensors) const;

  /// The tensors with these sensitivities; as they are where others were measured.
  std::vector<SavedStatistics> applied(std::span<const SavedStatistics> tensors) const;

  std::vector<StateView> state(const std::string& name) const;
  /// Older checkpoints have none.
  void restore(const StateMap& saved, const std::string& name);

 private:
  std::vector<double> factors_ = {};           // by tensor; empty: not measured yet
  std::vector<std::int64_t> identities_ = {};  // of the tensors
};

}  // namespace triaccel
