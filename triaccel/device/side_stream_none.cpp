#include "triaccel/device/side_stream.h"

#include <utility>

namespace triaccel {

struct SideStream::Place {};
struct SideStream::Streams {};

SideStream::SideStream() = default;
SideStream::~SideStream() = default;

SideStream::Mark SideStream::mark() const { return nullptr; }
SideStream::Work SideStream::run(const std::function<void()>& work, std::vector<at::Tensor>) {
  work();
  return {};
}
SideStream::Work SideStream::run_after(const Mark&, const std::function<void()>& work,
                                       std::vector<at::Tensor> held) {
  return run(work, std::move(held));
}
cudaStream_t SideStream::handle() const { return nullptr; }
void SideStream::wait_down_to(std::int64_t) {}
void SideStream::come_after(const Work&) {}
void SideStream::wait_for(std::int64_t) {}
void SideStream::join() {}
void SideStream::abandon() {}

}  // namespace triaccel
