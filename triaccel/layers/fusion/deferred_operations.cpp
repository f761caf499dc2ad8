#include "triaccel/layers/fusion/deferred_operations.h"

#include <algorithm>
#include <utility>

namespace triaccel {

void DeferredOperations::add(const at::Tensor& output,
                             std::shared_ptr<DeferredOperation> operation) {
  drop_expired();
  pending_.push_back({.output = c10::weak_intrusive_ptr<c10::TensorImpl>(output.getIntrusivePtr()),
                      .operation = std::move(operation)});
}

DeferredOperations::Position DeferredOperations::position_of(const at::Tensor& tensor) const {
  return std::ranges::find_if(pending_, [&](const Pending& pending) {
    return !pending.output.expired() &&
           pending.output._unsafe_get_target() == tensor.unsafeGetTensorImpl();
  });
}

void DeferredOperations::remove(const at::Tensor& tensor) {
  if (const Position position = position_of(tensor); position != pending_.end())
    pending_.erase(position);
}

void DeferredOperations::drop_expired() {
  std::erase_if(pending_, [](const Pending& pending) {
    return pending.output.expired() && !pending.operation->has_side_effects();
  });
}

void DeferredOperations::materialize(Position position) {
  const Pending now = *position;
  pending_.erase(position);
  if (const auto output = now.output.lock())
    now.operation->materialize(at::Tensor(output));
  else if (now.operation->has_side_effects())
    now.operation->apply_side_effects();
}

void DeferredOperations::touch(const at::Tensor& tensor, bool writes) {
  drop_expired();
  if (pending_.empty() || !tensor.defined()) return;
  // First its own values: what others computed on the way to them may share its memory.
  if (const Position own = position_of(tensor); own != pending_.end()) materialize(own);
  const auto comes_first = [&](const Pending& pending) {
    return pending.operation->must_precede(tensor, writes);
  };
  for (Position next = std::ranges::find_if(pending_, comes_first); next != pending_.end();
       next = std::ranges::find_if(pending_, comes_first))
    materialize(next);
}

void DeferredOperations::materialize_all() {
  while (!pending_.empty()) materialize(pending_.begin());
}

}  // namespace triaccel
