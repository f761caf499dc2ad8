#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <utility>

#include "triaccel/device/side_stream.h"
#include "triaccel/device/work_stream.h"

namespace triaccel {

struct SideStream::Place {
  mutable at::cuda::CUDAEvent event;  // waiting for it changes nothing
};

struct SideStream::Streams {
  ~Streams() { release_workspaces(side.stream()); }

  struct Piece {
    at::cuda::CUDAEvent done;
    std::vector<at::Tensor> held;
    std::int64_t bytes = 0;
  };

  void let_go_of_oldest() {
    held_bytes -= pieces.front().bytes;
    pieces.pop_front();
    ++oldest;
  }
  void wait_for_oldest() {
    pieces.front().done.block(c10::cuda::getCurrentCUDAStream());
    let_go_of_oldest();
  }

  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  std::deque<Piece> pieces;  // not waited for yet, the oldest first
  std::int64_t oldest = 0;   // the number of the first
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
  return {.stream = this,
          .number = streams_->oldest + static_cast<std::int64_t>(streams_->pieces.size()) - 1};
}

void SideStream::come_after(const Work& work) {
  // What the main stream has waited for comes before all that run() enqueues.
  if (work.stream == nullptr || work.number < work.stream->streams_->oldest) return;
  Streams& other = *work.stream->streams_;
  other.pieces[static_cast<std::size_t>(work.number - other.oldest)].done.block(streams_->side);
}

void SideStream::wait_down_to(std::int64_t bytes) {
  while (streams_->held_bytes > bytes && streams_->pieces.size() > 1) streams_->wait_for_oldest();
}

void SideStream::wait_for(std::int64_t number) {
  if (number < streams_->oldest) return;
  // The newest of them stands for those before it.
  const auto index = static_cast<std::size_t>(number - streams_->oldest);
  streams_->pieces[index].done.block(c10::cuda::getCurrentCUDAStream());
  for (std::size_t i = 0; i <= index; ++i) streams_->let_go_of_oldest();
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
  while (!streams_->pieces.empty()) streams_->let_go_of_oldest();
}

}  // namespace triaccel
