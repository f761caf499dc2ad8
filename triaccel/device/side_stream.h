#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/device/current_stream.h"

namespace triaccel {

/// A second stream of a GPU, for work that others need only later. A capture of the current stream
/// takes it along.
class SideStream {
 public:
  SideStream();
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Enqueues `work` beside what follows on the current stream, after what is there already. The
  /// tensors it reads or writes must stay as they are until it is waited for: those in `held` are
  /// kept alive. Passes on what `work` throws; what it enqueued is waited for all the same.
  void run(const std::function<void()>& work, std::vector<at::Tensor> held);

  /// Waits for the oldest work, the newest always excepted, until what is held takes no more than
  /// `bytes`: what is enqueued on the current stream from now on comes after it.
  void wait_down_to(std::int64_t bytes);

  /// What is enqueued on the current stream from now on comes after all such work.
  void join();

  /// After work that failed: waits for what was enqueued, if streams still can, and lets go of all
  /// that is held.
  void abandon();

  cudaStream_t handle() const;

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace triaccel
