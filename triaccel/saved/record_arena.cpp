#include "triaccel/saved/record_arena.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "triaccel/base/divide_up.h"

namespace triaccel {
namespace {

constexpr std::int64_t kAlignment = 128;  // a GPU's cache line; kernels ask for 16

/// A page is there before its last record and after its first one to go. That costs at most its
/// size: a small share of what is held, and a smaller one of the step's peak.
constexpr std::int64_t kPagesInPass = 24;

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kAlignment); }

}  // namespace

void RecordArena::begin_pass() {
  expected_ = std::exchange(records_, {});
  const std::int64_t held = std::accumulate(expected_.begin(), expected_.end(), std::int64_t{0});
  most_in_page_ = held / kPagesInPass;
  allocations_ = allocated_bytes_ = 0;
  page_.reset();
}

/// For a record and those that followed it in the last pass.
std::int64_t RecordArena::bytes_of_page_from(std::int64_t bytes) const {
  std::size_t next = records_.size();
  if (next >= expected_.size() || expected_[next] != bytes) return bytes;
  while (++next < expected_.size() && bytes + expected_[next] <= most_in_page_)
    bytes += expected_[next];
  return bytes;
}

at::Tensor RecordArena::room(std::int64_t count, at::ScalarType type) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(type));
  const std::int64_t bytes = aligned(count * element);
  const auto options = at::TensorOptions(device_);
  at::Tensor record = at::empty({0}, options.dtype(type));
  c10::Storage page(page_.lock());
  if (!page || cursor_ + bytes > static_cast<std::int64_t>(page.nbytes())) {
    page = at::empty({bytes_of_page_from(bytes)}, options.dtype(at::kByte)).storage();
    page_ = page.getWeakStorageImpl();
    cursor_ = 0;
    ++allocations_;
    allocated_bytes_ += static_cast<std::int64_t>(page.nbytes());
  }
  record.set_(std::move(page), cursor_ / element, {count}, {1});
  records_.push_back(bytes);
  cursor_ += bytes;
  return record;
}

}  // namespace triaccel
