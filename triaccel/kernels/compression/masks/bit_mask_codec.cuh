#pragma once

#include <cstdint>

namespace triaccel::kernels::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// Note [Tiles of bits]
// A warp moves 1,024 elements in rows that its lanes share, kPack neighbours each, 4, 8 or 16. A
// lane then has bits of kRows = 32 / kPack rows: those of row r are the kPack bits from r * kPack
// on. across_lanes turns them into whole words of the mask and back: word word_of_lane().
template <int kPack>
inline constexpr int kRows = 32 / kPack;

/// Swaps rows and lanes within every kRows lanes; doing it twice changes nothing.
template <int kPack>
__device__ std::uint32_t across_lanes(std::uint32_t bits) {
  const unsigned lane = threadIdx.x % 32;
  const std::uint32_t far = __shfl_xor_sync(kAllLanes, bits, 16 / kPack);
  bits = __byte_perm(bits, far, lane & (16 / kPack) ? 0x3276 : 0x5410);
  if constexpr (kPack <= 8) {
    const std::uint32_t near = __shfl_xor_sync(kAllLanes, bits, 8 / kPack);
    bits = __byte_perm(bits, near, lane & (8 / kPack) ? 0x3715 : 0x6240);
  }
  if constexpr (kPack <= 4) {
    const std::uint32_t next = __shfl_xor_sync(kAllLanes, bits, 1);
    const std::uint32_t turned = __funnelshift_l(next, next, lane & 1 ? 28 : 4);
    const std::uint32_t kept = lane & 1 ? 0xf0f0f0f0u : 0x0f0f0f0fu;
    bits = (bits & kept) | (turned & ~kept);
  }
  return bits;
}

template <int kPack>
__device__ int word_of_lane() {
  const int lane = threadIdx.x % 32;
  return lane % kRows<kPack> * kPack + lane / kRows<kPack>;
}

/// Which lane has word `word`.
template <int kPack>
__device__ int lane_of_word(int word) {
  return word % kPack * kRows<kPack> + word / kPack;
}

}  // namespace triaccel::kernels::cuda
