#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace triaccel {

/// Keeps the tensors that autograd saves for backward.
class SavedTensorKeeper {
 public:
  virtual ~SavedTensorKeeper() = default;

  /// Called while an operator saves `tensor`, without grad mode. What it returns gives the tensor
  /// back, as often as it is asked and from any thread; it must hold no reference to `tensor`'s
  /// place in the graph, or the graph never dies.
  virtual std::function<at::Tensor()> keep(const at::Tensor& tensor) = 0;
};

/// Makes autograd ask SavedTensorScope for every tensor it saves, in the whole process; again is
/// harmless. The engine in use, libtorch's or Python's, goes on doing everything else, so under
/// Python it must be installed after torch has been imported.
void install_saved_tensor_engine();

/// Until the scope ends, what this thread's operators save is kept by `keeper`, which must outlive
/// the scope but not the graph. Needs install_saved_tensor_engine().
class [[nodiscard]] SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorKeeper& keeper);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorKeeper* previous_;
};

/// Until the scope ends, autograd saves tensors itself again: for what is differentiated twice.
class [[nodiscard]] SavedTensorPause {
 public:
  SavedTensorPause();
  ~SavedTensorPause();
  SavedTensorPause(const SavedTensorPause&) = delete;
  SavedTensorPause& operator=(const SavedTensorPause&) = delete;

 private:
  SavedTensorKeeper* previous_;
};

/// Calls its argument, in backward, as it would have been called in forward.
using RunAgain = std::function<void(const std::function<void()>& forward)>;

/// Until the scope ends, saved-tensor hooks of the user that this thread's operators take up give
/// tensors back within `again`: under activation checkpointing that is a second forward pass. Needs
/// install_saved_tensor_engine().
class [[nodiscard]] UserHooksScope {
 public:
  explicit UserHooksScope(RunAgain again);
  ~UserHooksScope();
  UserHooksScope(const UserHooksScope&) = delete;
  UserHooksScope& operator=(const UserHooksScope&) = delete;

 private:
  std::shared_ptr<const RunAgain> again_;
  const std::shared_ptr<const RunAgain>* previous_;
};

}  // namespace triaccel
