#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "triaccel/base/host_device.h"

namespace triaccel {

/// The stream libtorch computes on now, on `device`: what our kernels are enqueued on, so that they
/// order with torch's own and are captured with them. Null in a build without CUDA.
cudaStream_t current_cuda_stream(const c10::Device& device);

/// Gives back the workspaces that libtorch keeps for cuBLAS and cuBLASLt on `stream`, 1 MiB each: a
/// run has streams of its own, and what it leaves would count against the budget of the next. Not
/// before what was captured with them is gone. In builds with CUDA only.
void release_workspaces(cudaStream_t stream);

/// On a GPU, makes a stream other than the default one the current stream of this thread until the
/// scope ends: only work on such a stream can be captured. Nothing on a CPU.
class [[nodiscard]] WorkStream {
 public:
  explicit WorkStream(c10::Device device);
  ~WorkStream();
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

/// A second stream of a GPU, for work that others need only later. A capture of the current stream
/// takes it along.
class SideStream {
  struct Place;  // in the order of a stream's work

 public:
  using Mark = std::shared_ptr<const Place>;

  /// Work that was enqueued here; by default none.
  struct Work {
    SideStream* stream = nullptr;
    std::int64_t number = 0;

    /// What is enqueued on the current stream from now on comes after it.
    void wait() const {
      if (stream != nullptr) stream->wait_for(number);
    }
  };

  SideStream();
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Enqueues `work` concurrently with what follows on the current stream, after what is there
  /// already. The tensors it reads or writes must stay as they are until it is waited for: those in
  /// `held` are kept alive. Passes on what `work` throws; what it enqueued is waited for all the
  /// same.
  Work run(const std::function<void()>& work, std::vector<at::Tensor> held);

  /// Where the current stream's work stands now.
  Mark mark() const;

  /// As run(), but also concurrently with what the current stream got since `mark`. Memory that was
  /// freed since then may still be in use there: all that `work` writes it must allocate itself,
  /// and what it leaves must be kept until a later run() has begun.
  Work run_after(const Mark& mark, const std::function<void()>& work, std::vector<at::Tensor> held);

  /// What run() enqueues here from now on comes after that work of another side stream.
  void come_after(const Work& work);

  /// Waits for the oldest work, the newest always excepted, until what is held takes no more than
  /// `bytes`: what is enqueued on the current stream from now on comes after it.
  void wait_down_to(std::int64_t bytes);

  /// What is enqueued on the current stream from now on comes after that work and all before it.
  void wait_for(std::int64_t number);

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

/// The side streams of a step. One holds what the update depends on, and the update itself; the
/// other what the step's own chain depends on, which must not queue behind them.
struct SideStreams {
  SideStream updates, branches;

  void join() {
    updates.join();
    branches.join();
  }
  void abandon() {
    updates.abandon();
    branches.abandon();
  }
};

}  // namespace triaccel
