#pragma once

#include <cstdint>

namespace triaccel::kernels::cuda {

/// Whether copy_async returns before the copy is made.
template <typename Word>
inline constexpr bool kCopiesAsync =
#if __CUDA_ARCH__ >= 800
    sizeof(Word) >= 4;
#else
    false;
#endif

/// Where copy_async writes, in shared memory. Not computed anew for every copy, as nvcc would.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
  asm volatile("" : "+r"(address));
  return address;
}

/// Begins to copy a word of up to 16 bytes to shared memory, past the registers; wait_for_copies
/// waits for all of the thread's.
template <typename Word>
__device__ __forceinline__ void copy_async(std::uint32_t to, const Word* from) {
  if constexpr (!kCopiesAsync<Word>)
    *static_cast<Word*>(__cvta_shared_to_generic(to)) = *from;
  else if constexpr (sizeof(Word) == 16)  // to be read once: not by way of L1
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(sizeof(Word))
                 : "memory");
}

__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace triaccel::kernels::cuda
