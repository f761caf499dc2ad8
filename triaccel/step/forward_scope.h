#pragma once

#include <optional>

#include "triaccel/layers/layer_execution.h"
#include "triaccel/step/autocast_scope.h"

namespace triaccel {

/// How forward passes compute, in training and in evaluation alike.
struct ForwardRules {
  bool autocast = false;                     // the whole pass under torch's autocast …
  at::ScalarType autocast_type = at::kHalf;  // … to this type
  LayerExecution* layers = nullptr;          // or every layer as its plan says
};

/// Those rules for the operators of this thread until the scope ends.
class [[nodiscard]] ForwardScope {
 public:
  ForwardScope(const ForwardRules& rules, c10::DeviceType device)
      : autocast_(rules.autocast, device, rules.autocast_type) {
    if (rules.layers != nullptr) layers_.emplace(*rules.layers);
  }

 private:
  AutocastScope autocast_;
  std::optional<OperatorScope> layers_;
};

}  // namespace triaccel
