#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace triaccel {

/// Host memory for what forward passes save, which stays from pass to pass and never moves, so that
/// captured work finds it where it was. Passes that save the same get the same places.
class HostArena {
 public:
  /// For work on `device`, see host_memory_for().
  explicit HostArena(c10::Device device) : device_(device) {}

  /// Starts over at the first chunk in which nothing is in use.
  void begin_pass();

  /// Memory that is in use as long as a copy of the pointer exists. Throws OutOfMemory where the
  /// host has none, and has then changed nothing.
  std::shared_ptr<std::byte> room(std::int64_t bytes);

  /// Taken from the host so far.
  std::int64_t bytes() const;

 private:
  struct Chunk {
    std::shared_ptr<void> memory = {};
    std::int64_t bytes = 0;
  };
  Chunk free_chunk(std::int64_t bytes);

  c10::Device device_;
  std::vector<Chunk> chunks_;
  Chunk current_ = {};       // the one that is filled now
  std::int64_t cursor_ = 0;  // bytes of it that are taken
};

}  // namespace triaccel
