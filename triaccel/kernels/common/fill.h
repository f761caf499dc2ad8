#pragma once

#include <cstdint>

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
}  // namespace triaccel::kernels
