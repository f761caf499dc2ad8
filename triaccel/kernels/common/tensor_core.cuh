#pragma once

#include <cstdint>

#include "triaccel/kernels/common/float_type_math.h"

// Products of 16-bit matrices by the tensor cores of one warp, and what brings the matrices there,
// from compute capability 8.0 on. A warp's lanes hold matrices as stem_convolution_work.h says.
namespace triaccel::kernels::cuda {

/// d += a * b, by the whole warp.
__device__ inline void multiply(StoredAs<FloatType::Bf16>, float (&d)[4],
                                const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

__device__ inline void multiply(StoredAs<FloatType::F16>, float (&d)[4],
                                const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}

/// Calls body(StoredAs<type>{}) for a 16-bit type.
template <typename Body>
void with_operand_type(FloatType type, Body body) {
  if (type == FloatType::F16)
    body(StoredAs<FloatType::F16>{});
  else
    body(StoredAs<FloatType::Bf16>{});
}

/// Copies 16 bytes to shared memory, or writes zeros where `live` is false, and does not wait.
__device__ inline void copy_16_bytes(void* to, const void* from, bool live) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(live ? 16 : 0)
               : "memory");
#endif
}

__device__ inline void end_of_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits for a thread's copies, except those that its last `newest` calls of end_of_copies()
/// closed, and any since.
template <int newest>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory");
#endif
}

/// Four matrices [8][8] of 16-bit numbers, transposed: lane i gives the address of row i % 8 of
/// matrix i / 8, and gets of each matrix the rows 2 (lane % 4) and the next in column lane / 4.
__device__ inline void load_transposed(std::uint32_t (&a)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address));
#endif
}

}  // namespace triaccel::kernels::cuda
