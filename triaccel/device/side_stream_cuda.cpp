#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <utility>

#include "triaccel/device/side_stream.h"
#include "triaccel/device/stream_workspaces.h"

namespace triaccel {

struct SideStream::Streams {
  ~Streams() { drop_workspaces(side.stream()); }

  struct Piece {
    at::cuda::CUDAEvent done;
    std::vector<at::Tensor> held;
    std::int64_t bytes = 0;
  };

  void wait_for_oldest() {
    pieces.front().done.block(c10::cuda::getCurrentCUDAStream());
    held_bytes -= pieces.front().bytes;
    pieces.pop_front();
  }

  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  std::deque<Piece> pieces;  // not waited for yet, the oldest first
  std::int64_t held_bytes = 0;
};

SideStream::SideStream() : streams_(std::make_unique<Streams>()) {}
SideStream::~SideStream() = default;

cudaStream_t SideStream::handle() const { return streams_->side.stream(); }

void SideStream::run(const std::function<void()>& work, std::vector<at::Tensor> held) {
  at::cuda::CUDAEvent before;
  before.record();
  before.block(streams_->side);
  Streams::Piece piece;
  for (const at::Tensor& tensor : held) piece.bytes += static_cast<std::int64_t>(tensor.nbytes());
  piece.held = std::move(held);
  const auto finish = [&] {
    piece.done.record(streams_->side);
    streams_->held_bytes += piece.bytes;
    streams_->pieces.push_back(std::move(piece));
  };
  try {
    const c10::cuda::CUDAStreamGuard guard(streams_->side);
    work();
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

void SideStream::wait_down_to(std::int64_t bytes) {
  while (streams_->held_bytes > bytes && streams_->pieces.size() > 1) streams_->wait_for_oldest();
}

void SideStream::join() {
  while (!streams_->pieces.empty()) streams_->wait_for_oldest();
}

void SideStream::abandon() {
  try {
    join();
  } catch (const c10::Error&) {
    (void)cudaGetLastError();  // a capture that has become invalid refuses to wait
  }
  streams_->pieces.clear();
  streams_->held_bytes = 0;
}

}  // namespace triaccel
