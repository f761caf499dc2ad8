#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <mutex>
#include <utility>

#include "triaccel/device/side_stream.h"

namespace triaccel {

cudaStream_t current_cuda_stream(const c10::Device& device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

/// Waits at both ends, so that work on either side sees what was done on the other.
struct WorkStream::Guard {
  explicit Guard(c10::Device device)
      : stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    c10::cuda::device_synchronize();
  }
  ~Guard() {  // an error has been reported before, or will be
    if (cudaDeviceSynchronize() == cudaSuccess)
      release_workspaces(stream.current_stream().stream());
  }

  c10::cuda::CUDAStreamGuard stream;
};

WorkStream::WorkStream(c10::Device device) {
  if (device.is_cuda()) guard_ = std::make_unique<Guard>(device);
}

WorkStream::~WorkStream() = default;

void release_workspaces(cudaStream_t stream) {
  for (at::cuda::WorkspaceMapWithMutex* kept : {&at::cuda::cublas_handle_stream_to_workspace(),
                                                &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::unique_lock lock(kept->mutex);
    std::erase_if(kept->map, [&](const auto& entry) { return std::get<1>(entry.first) == stream; });
  }
}

struct SideStream::Place {
  mutable at::cuda::CUDAEvent event;  // waiting for it changes nothing
};

struct SideStream::Streams {
  ~Streams() { release_workspaces(side.stream()); }

  struct Task {
    at::cuda::CUDAEvent done;
    std::vector<at::Tensor> held;
    std::int64_t bytes = 0;
  };

  void release_oldest() {
    held_bytes -= tasks.front().bytes;
    tasks.pop_front();
    ++oldest;
  }
  void wait_for_oldest() {
    tasks.front().done.block(c10::cuda::getCurrentCUDAStream());
    release_oldest();
  }

  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  std::deque<Task> tasks;   // not waited for yet, the oldest first
  std::int64_t oldest = 0;  // the number of the first
  std::int64_t held_bytes = 0;
};

SideStream::SideStream() : streams_(std::make_unique<Streams>()) {}
SideStream::~SideStream() = default;

cudaStream_t SideStream::handle() const { return streams_->side.stream(); }

SideStream::Mark SideStream::mark() const {
  auto place = std::make_shared<Place>();
  place->event.record();
  return place;
}

SideStream::Work SideStream::run(const std::function<void()>& work, std::vector<at::Tensor> held) {
  return run_after(mark(), work, std::move(held));
}

SideStream::Work SideStream::run_after(const Mark& mark, const std::function<void()>& work,
                                       std::vector<at::Tensor> held) {
  mark->event.block(streams_->side);
  Streams::Task task;
  for (const at::Tensor& tensor : held) task.bytes += static_cast<std::int64_t>(tensor.nbytes());
  task.held = std::move(held);
  const auto finish = [&] {
    task.done.record(streams_->side);
    streams_->held_bytes += task.bytes;
    streams_->tasks.push_back(std::move(task));
  };
  try {
    const c10::cuda::CUDAStreamGuard guard(streams_->side);
    work();
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return {.stream = this,
          .number = streams_->oldest + static_cast<std::int64_t>(streams_->tasks.size()) - 1};
}

void SideStream::come_after(const Work& work) {
  // What the main stream has waited for comes before all that run() enqueues.
  if (work.stream == nullptr || work.number < work.stream->streams_->oldest) return;
  Streams& other = *work.stream->streams_;
  other.tasks[static_cast<std::size_t>(work.number - other.oldest)].done.block(streams_->side);
}

void SideStream::wait_down_to(std::int64_t bytes) {
  while (streams_->held_bytes > bytes && streams_->tasks.size() > 1) streams_->wait_for_oldest();
}

void SideStream::wait_for(std::int64_t number) {
  if (number < streams_->oldest) return;
  // The newest of them stands for those before it.
  const auto index = static_cast<std::size_t>(number - streams_->oldest);
  streams_->tasks[index].done.block(c10::cuda::getCurrentCUDAStream());
  for (std::size_t i = 0; i <= index; ++i) streams_->release_oldest();
}

void SideStream::join() {
  while (!streams_->tasks.empty()) streams_->wait_for_oldest();
}

void SideStream::abandon() {
  try {
    join();
  } catch (const c10::Error&) {
    (void)cudaGetLastError();  // a capture that has become invalid refuses to wait
  }
  while (!streams_->tasks.empty()) streams_->release_oldest();
}

}  // namespace triaccel
