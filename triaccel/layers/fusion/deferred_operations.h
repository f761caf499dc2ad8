#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <vector>

namespace triaccel {

/// An operation that was called but not computed: its output, the placeholder, has a shape and a
/// node in autograd's graph; its values follow when they are needed.
class DeferredOperation {
 public:
  virtual ~DeferredOperation() = default;

  /// Computes the values of `output`; the operation is no longer registered.
  virtual void materialize(const at::Tensor& output) = 0;

  /// Whether it must be computed before `tensor` is read, or written where `writes`: it still has
  /// to read what would be overwritten, or to write what would be read. Not asked of its output.
  virtual bool must_precede(const at::Tensor& tensor, bool writes) const = 0;

  /// Whether something but the output is still to be written, as running statistics are; if not,
  /// the operation expires with its output. Else apply_side_effects() writes that alone.
  virtual bool has_side_effects() const { return false; }
  virtual void apply_side_effects() {}
};

/// The operations of a pass whose outputs have no values yet, in the order in which they were
/// called. The next operator may fuse with one (find, take); any other reader or writer is
/// announced by touch(), which materializes what has to come first. So fusion works for modules
/// that know nothing of it, as long as they touch tensors by operators.
///
/// Another fusion (layer norm, GELU, a residual add) derives its own DeferredOperation, adds it
/// with a placeholder from its OperatorHooks function, and asks for it by find<Its>(operand) in the
/// functions of the operators that it fuses with. Nothing else has to know of it.
class DeferredOperations {
 public:
  void add(const at::Tensor& output, std::shared_ptr<DeferredOperation> operation);

  /// The operation whose output `tensor` is, if it is deferred and of this type; else null.
  template <typename Operation>
  std::shared_ptr<Operation> find(const at::Tensor& tensor) const {
    const auto found = position_of(tensor);
    return found == pending_.end() ? nullptr
                                   : std::dynamic_pointer_cast<Operation>(found->operation);
  }

  /// Removes the operation whose output `tensor` is: the caller computes or replaces it.
  void remove(const at::Tensor& tensor);

  /// Before an operator reads `tensor`, or writes it.
  void touch(const at::Tensor& tensor, bool writes);

  bool empty() const { return pending_.empty(); }
  void materialize_all();

  /// Drops everything, after a pass that failed.
  void clear() { pending_.clear(); }

 private:
  struct Pending {
    c10::weak_intrusive_ptr<c10::TensorImpl> output;
    std::shared_ptr<DeferredOperation> operation;
  };
  using Position = std::vector<Pending>::const_iterator;

  Position position_of(const at::Tensor& tensor) const;
  void materialize(Position position);
  void drop_expired();

  std::vector<Pending> pending_;
};

}  // namespace triaccel
