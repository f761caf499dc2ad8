#include "triaccel/device/side_stream.h"

namespace triaccel {

struct SideStream::Streams {};

SideStream::SideStream() = default;
SideStream::~SideStream() = default;

void SideStream::run(const std::function<void()>& work, std::vector<at::Tensor>) { work(); }
cudaStream_t SideStream::handle() const { return nullptr; }
void SideStream::wait_down_to(std::int64_t) {}
void SideStream::join() {}
void SideStream::abandon() {}

}  // namespace triaccel
