#include "triaccel/optim/named_states.h"

#include <ATen/ATen.h>

#include "triaccel/ops/tensor_state.h"

namespace triaccel {

void NamedStates::append_to(std::vector<StateView>& states,
                            const std::vector<ParameterRef>& owners) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    states.push_back(tensor_state(kind_ + "/" + owners[i].name, tensors_[i]));
}

void NamedStates::check(const StateMap& saved, const std::vector<ParameterRef>& owners) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    check_restorable(tensors_[i], saved, kind_ + "/" + owners[i].name);
}

void NamedStates::restore(const StateMap& saved, const std::vector<ParameterRef>& owners) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    restore_tensor(tensors_[i], saved, kind_ + "/" + owners[i].name);
}

std::int64_t NamedStates::bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors_) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace triaccel
