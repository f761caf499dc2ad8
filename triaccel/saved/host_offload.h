#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "triaccel/saved/host_arena.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {

/// Keeps saved tensors in host memory. On a GPU forward goes on while a tensor is copied there on a
/// side stream, and backward while the next ones are copied back on another, in the reverse of
/// their order. What lies on the device meanwhile, on its way out or ahead of its reader, is
/// bounded by a share of the pass. Not a bit changes.
///
/// Nothing here waits for the device, so a pass may be captured. Host memory stays from pass to
/// pass: one like the last takes none.
class HostOffload {
 public:
  explicit HostOffload(c10::Device device);
  ~HostOffload();
  HostOffload(const HostOffload&) = delete;
  HostOffload& operator=(const HostOffload&) = delete;

  /// `in_step`: backward follows before the next pass begins, whether of this one or of captured
  /// work. The memory of such passes serves no others, since every replay writes it.
  void begin_pass(bool in_step);

  /// What is enqueued on the current stream from now on comes after all copies.
  void end_pass();

  /// The same after a pass that failed, as SideStream::abandon().
  void abandon_pass();

  /// A record of a tensor that covers its memory without gaps; it decodes to its elements as
  /// they lie there, in one dimension, and may outlive this object. The tensor must stay as it is
  /// until the pass has ended. Throws OutOfMemory where the host has no memory left.
  SavedRecord keep(const at::Tensor& dense);

  /// Host memory taken so far.
  std::int64_t host_bytes() const;

 private:
  struct Pass;
  struct Slot;
  struct State;

  HostArena& arena();  // of the pass under way

  std::shared_ptr<State> state_;
  std::shared_ptr<Pass> pass_;  // under way
  bool in_step_ = false;        // as begin_pass() has it
};

}  // namespace triaccel
