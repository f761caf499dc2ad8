#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/ops/tensor_bundle.h"

namespace triaccel {

/// One tensor a parameter, as state "<kind>/<parameter name>".
class NamedStates {
 public:
  NamedStates(std::string kind, std::vector<at::Tensor> tensors)
      : kind_(std::move(kind)), tensors_(std::move(tensors)) {}

  void append_to(std::vector<StateView>& states, const std::vector<ParameterRef>& owners) const;
  void check(const StateMap& saved, const std::vector<ParameterRef>& owners) const;
  void restore(const StateMap& saved, const std::vector<ParameterRef>& owners);

  std::int64_t bytes() const;
  std::vector<at::Tensor>& tensors() { return tensors_; }

 private:
  std::string kind_;
  std::vector<at::Tensor> tensors_;  // index = parameter
};

}  // namespace triaccel
