#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "triaccel/device/side_stream.h"

namespace triaccel {

struct SideStream::Streams {
  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
};

SideStream::SideStream() : streams_(std::make_unique<Streams>()) {}
SideStream::~SideStream() = default;

void SideStream::run(const std::function<void()>& work, std::vector<at::Tensor> held) {
  at::cuda::CUDAEvent before;
  before.record();
  before.block(streams_->side);
  {
    const c10::cuda::CUDAStreamGuard guard(streams_->side);
    work();
  }
  busy_ = true;
  for (at::Tensor& tensor : held) {
    held_bytes_ += static_cast<std::int64_t>(tensor.nbytes());
    held_.push_back(std::move(tensor));
  }
}

cudaStream_t SideStream::handle() const { return streams_->side.stream(); }

void SideStream::join() {
  if (!busy_) return;
  at::cuda::CUDAEvent after;
  after.record(streams_->side);
  after.block(c10::cuda::getCurrentCUDAStream());
  held_.clear();
  held_bytes_ = 0;
  busy_ = false;
}

}  // namespace triaccel
