#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/device/side_stream.h"

namespace triaccel {

/// One way of a network that has parted in two: what stands on it runs on a stream of its own.
class Branch {
 public:
  Branch(SideStreams& side, SideStream::Mark from) : side_(side), from_(std::move(from)) {}

  /// Beside all that the main stream got since the ways parted; as SideStream::run_after.
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
  SideStream::Work newest_;  // that nobody has waited for
  std::vector<at::Tensor> kept_;
};

/// Finds where a network parts: a convolution whose input another one has read before it, as the
/// shortcut of a residual block, may run beside all that came after that one. Kernels on small maps
/// leave most of a GPU idle.
class Branches {
 public:
  /// Around each forward pass. Null: everything stays in one stream.
  void begin_pass(SideStreams* side);
  void end_pass();

  /// Forgets what was found, after a pass that failed.
  void forget_all() { begin_pass(nullptr); }

  /// Whether a network might part behind `input`.
  bool may_part_behind(const at::Tensor& input) const;

  /// The branch that a convolution of `input` may run on; null: none. All else that it reads must
  /// have been there before the first one was enqueued.
  std::shared_ptr<Branch> at(const at::Tensor& input) const;

  /// The main stream has got a convolution of `input`, behind which the network might part.
  void note_reader(const at::Tensor& input);

  /// `output` was made on a branch, of `input`.
  void note_made(std::shared_ptr<Branch> branch, const at::Tensor& input, const at::Tensor& output);

  /// `written`, which is somebody else's, gets new values on a branch.
  void note_written(const Branch& branch, const at::Tensor& written);

  /// The branch on which `map` was made and that the main stream has not waited for; null: none.
  std::shared_ptr<Branch> maker_of(const at::Tensor& map) const;

  /// Whether touch() must be told of what the main stream does.
  bool waits() const;
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

  SideStreams* side_ = nullptr;
  std::deque<Reader> readers_;  // the newest last
  std::vector<Made> made_;
};

}  // namespace triaccel
