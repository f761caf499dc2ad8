#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"

namespace triaccel::kernels {

/// Memory that is to hold elements of one value.
struct Fill {
  void* to = nullptr;  // a multiple of an element's size
  std::int64_t bytes = 0;
  std::uint32_t pattern = 0;  // fill_pattern() of the value: four bytes, again and again
};

namespace cuda {

/// A kernel for the node of a graph that somebody else builds: its only argument is the Fill. Each
/// edge to such a node must be a full one: the kernel does not wait.
struct FillKernel {
  const void* function = nullptr;
  unsigned blocks = 0;
  unsigned threads = 0;
};

/// On the current device.
FillKernel fill_kernel(const Fill& fill);

}  // namespace cuda

/// The pattern of elements of 1, 2 or 4 bytes that all have the lowest bytes of `value`.
constexpr std::uint32_t fill_pattern(std::uint32_t value, unsigned element_bytes) {
  if (element_bytes == 1) return (value & 0xffu) * 0x01010101u;
  if (element_bytes == 2) return (value & 0xffffu) * 0x00010001u;
  return value;
}

/// What a thread stores at once.
struct alignas(16) FillVector {
  std::uint32_t words[4];
};

/// One thread's share of a fill by `threads` of them: vectors where they fit, single bytes at both
/// ends. Neighbouring threads take neighbouring vectors.
TRIACCEL_HOST_DEVICE inline void fill_share(const Fill& fill, std::int64_t thread,
                                            std::int64_t threads) {
  constexpr std::int64_t width = sizeof(FillVector);
  auto* const first = static_cast<std::uint8_t*>(fill.to);
  const auto to_boundary =
      static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(fill.to) % width);
  const std::int64_t head = to_boundary < fill.bytes ? to_boundary : fill.bytes;
  const std::int64_t vectors = (fill.bytes - head) / width;
  auto* const middle = reinterpret_cast<FillVector*>(first + head);
  for (std::int64_t i = thread; i < vectors; i += threads)
    middle[i] = {{fill.pattern, fill.pattern, fill.pattern, fill.pattern}};
  const std::int64_t loose = fill.bytes - vectors * width;
  for (std::int64_t i = thread; i < loose; i += threads) {
    const std::int64_t place = i < head ? i : i + vectors * width;
    first[place] = static_cast<std::uint8_t>(fill.pattern >> (8 * (place % 4)));
  }
}

}  // namespace triaccel::kernels
