#include "triaccel/saved/host_arena.h"

#include <algorithm>
#include <numeric>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/device/host_memory.h"

namespace triaccel {
namespace {

constexpr std::int64_t kPlaceAlignment = 512;  // of a copy's address, for the bus

/// To pin memory takes long, so that it is taken in large chunks.
constexpr std::int64_t kChunkBytes = 32 << 20;

}  // namespace

void HostArena::begin_pass() {
  current_ = {};
  cursor_ = 0;
}

std::int64_t HostArena::bytes() const {
  return std::accumulate(chunks_.begin(), chunks_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Chunk& chunk) { return sum + chunk.bytes; });
}

/// One in which nothing is in use, or a new one.
HostArena::Chunk HostArena::free_chunk(std::int64_t bytes) {
  const auto found = std::ranges::find_if(chunks_, [&](const Chunk& chunk) {
    return chunk.bytes >= bytes && chunk.memory.use_count() == 1;
  });
  if (found != chunks_.end()) return *found;
  const std::int64_t taken = std::max(bytes, kChunkBytes);
  try {
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back({host_memory_for(device_, taken).host, taken});
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(text("saved activations have ", byte_text(this->bytes()),
                           " of host memory and need more: ", error.what(),
                           "; try smaller passes, or --activations lossless or compressed"));
  }
  return chunks_.back();
}

std::shared_ptr<std::byte> HostArena::room(std::int64_t bytes) {
  bytes = round_up(bytes, kPlaceAlignment);
  if (cursor_ + bytes > current_.bytes) {
    current_ = free_chunk(bytes);
    cursor_ = 0;
  }
  auto* const first = static_cast<std::byte*>(current_.memory.get()) + cursor_;
  cursor_ += bytes;
  return {current_.memory, first};
}

}  // namespace triaccel
