#include "triaccel/int8/training/random_stream.h"

#include <bit>
#include <cstring>

#include "triaccel/int8/threads.h"

namespace triaccel::int8 {

// random_words for many blocks, lane by lane, so that the compiler vectorizes.
TRIACCEL_WIDE_LOOP void draw_half_words(std::uint64_t key, std::uint64_t first,
                                        std::uint16_t* out) {
  constexpr std::uint32_t kBlocks = kDrawnTogether / 8;
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  const std::uint64_t block = first >> 3;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    c0[i] = static_cast<std::uint32_t>(block + i);
    c1[i] = static_cast<std::uint32_t>((block + i) >> 32);
    c2[i] = 0;
    c3[i] = 0;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2[i];
      const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<std::uint32_t>(p1);
      c3[i] = static_cast<std::uint32_t>(p0);
      c0[i] = n0;
      c2[i] = n2;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // A word holds two half words, the lower first.
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t words[4 * kBlocks];
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
  std::memcpy(out, words, sizeof(words));
}

}  // namespace triaccel::int8
