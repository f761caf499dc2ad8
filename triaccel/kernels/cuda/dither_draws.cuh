#pragma once

#include <cstdint>

#include "triaccel/kernels/dither.h"

namespace triaccel::kernels::cuda {

/// dither_words for a kernel that draws much. As an argument of the kernel it keeps the keys of all
/// rounds in constant memory, where they cost no instruction; a round is then two multiplications
/// and two exclusive ors.
class DitherDraws {
 public:
  explicit DitherDraws(const DitherKey& key) : tensor_(key.tensor), step_(key.step) {
    auto k0 = static_cast<std::uint32_t>(key.seed);
    auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < kRounds; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
      keys_[round][0] = k0, keys_[round][1] = k1;
  }

  /// Read it once.
  __device__ std::uint32_t step() const {
    return step_ == nullptr ? 0u : static_cast<std::uint32_t>(*step_);
  }

  /// dither_words(key, group).
  __device__ RandomWords draw(std::uint64_t group, std::uint32_t step) const {
    auto c0 = static_cast<std::uint32_t>(group), c1 = static_cast<std::uint32_t>(group >> 32);
    std::uint32_t c2 = tensor_, c3 = step;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t p0 = product(c0, 0xD2511F53u), p1 = product(c2, 0xCD9E8D57u);
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ keys_[round][0];
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ keys_[round][1];
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
    }
    return {{c0, c1, c2, c3}};
  }

 private:
  static constexpr int kRounds = 10;

  /// Said outright: the compiler adds the zeros above 32 bits to products of 64.
  __device__ static std::uint64_t product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
    std::uint64_t result;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(result) : "r"(a), "r"(b));
    return result;
#else
    return std::uint64_t{a} * b;
#endif
  }

  std::uint32_t keys_[kRounds][2];
  std::uint32_t tensor_;
  const std::int64_t* step_;
};

}  // namespace triaccel::kernels::cuda
