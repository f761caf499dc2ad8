#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "triaccel/device/side_stream.h"
#include "triaccel/layers/scope/operator_scope.h"

namespace triaccel {

/// One path of a network that has forked: what stands on it runs on a stream of its own.
class Branch {
 public:
  Branch(SideStreams& side, SideStream::Mark from) : side_(side), from_(std::move(from)) {}

  /// Concurrently with all that the main stream got since the fork; as SideStream::run_after.
  void run(const std::function<void()>& work, std::vector<at::Tensor> held);

  /// Until the pass has ended: memory that was allocated here and may be read elsewhere.
  void keep(std::vector<at::Tensor> tensors);

  /// What is enqueued on the main stream from now on comes after all that ran here.
  void join();
  bool is_joined() const { return newest_.stream == nullptr; }

  SideStreams& side() const { return side_; }

 private:
  SideStreams& side_;
  SideStream::Mark from_;
  SideStream::Work newest_;  // not waited for yet
  std::vector<at::Tensor> kept_;
};

/// Finds where a network forks: a convolution whose input another one has read before it, as the
/// shortcut of a residual block, may run concurrently with all that came after that one. Kernels on
/// small maps leave most of a GPU idle.
class Branches {
 public:
  /// Around each forward pass. Null: everything stays in one stream.
  void begin_pass(SideStreams* side);
  void end_pass();

  /// Drops what was found, after a pass that failed.
  void clear() { begin_pass(nullptr); }

  /// Whether a network might fork behind `input`.
  bool may_part_behind(const at::Tensor& input) const;

  /// The branch that a convolution of `input` may run on; null: none. All else that it reads must
  /// have been there before the first one was enqueued.
  std::shared_ptr<Branch> at(const at::Tensor& input) const;

  /// The main stream has got a convolution of `input`, behind which the network might fork.
  void note_reader(const at::Tensor& input);

  /// `output` was made on a branch, of `input`.
  void note_made(std::shared_ptr<Branch> branch, const at::Tensor& input, const at::Tensor& output);

  /// The branch on which a norm may compute its statistics: the one that made its input, unless a
  /// norm of this pass has moved the same running statistics before, since the main stream may do
  /// so after the fork; null: none. From then on the running statistics are written there.
  std::shared_ptr<Branch> branch_for(const BatchNormCall& call);
  /// A norm on the main stream.
  void note_norm(const BatchNormCall& call) { moves_first(call); }

  /// The branch on which `map` was made and that the main stream has not waited for; null: none.
  std::shared_ptr<Branch> maker_of(const at::Tensor& map) const;

  /// Whether touch() must be told of what the main stream does.
  bool has_pending() const;
  /// The main stream is about to read `tensor`, or to write it. Behind a write to what nobody has
  /// computed, a weight or a buffer, no branch begins that could read it too early.
  void touch(const at::Tensor& tensor, bool writes);

 private:
  struct Reader {
    c10::weak_intrusive_ptr<c10::TensorImpl> input;
    std::uint32_t version;  // of its values
    SideStream::Mark behind;
  };
  struct Made {  // held until the pass has ended, as SideStream::run_after asks for
    std::shared_ptr<Branch> branch;
    at::Tensor input, output;
    std::vector<at::Tensor> written = {};

    bool concerns(const at::Tensor& tensor, bool writes) const;
  };

  /// Whether no norm of this pass has moved these running statistics before.
  bool moves_first(const BatchNormCall& call);

  SideStreams* side_ = nullptr;
  std::deque<Reader> readers_;  // the newest last
  std::vector<Made> made_;
  std::unordered_set<const void*> moved_;  // running means, in this pass
};

}  // namespace triaccel
