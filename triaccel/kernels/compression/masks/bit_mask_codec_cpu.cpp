#include <algorithm>
#include <bit>
#include <cstring>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/compression/masks/bit_mask_codec.h"

namespace triaccel::kernels::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes become bits in their order");

constexpr std::int64_t kBlockWords = 512;  // of one turn of a thread

/// The lowest bits of eight bytes, the first byte's lowest.
std::uint32_t gathered(const std::uint8_t* bytes) {
  std::uint64_t eight;
  std::memcpy(&eight, bytes, sizeof eight);
  return static_cast<std::uint32_t>(eight * 0x0102040810204080u >> 56);
}

template <typename Element>
TRIACCEL_WIDE_VECTORS void write_bits(const typename Element::Word* elements, std::int64_t count,
                                      MaskTest test, std::uint32_t* __restrict words) {
  for (std::int64_t first = 0; first < count; first += 32) {
    alignas(32) std::uint8_t set[32] = {};
    if (first + 32 <= count) {
#pragma omp simd
      for (int i = 0; i < 32; ++i) set[i] = Element::is_set(elements[first + i], test);
    } else {
      for (std::int64_t i = first; i < count; ++i)
        set[i - first] = Element::is_set(elements[i], test);
    }
    words[first / 32] = gathered(set) | gathered(set + 8) << 8 | gathered(set + 16) << 16 |
                        gathered(set + 24) << 24;
  }
}

/// `set` where a bit is set, else zero.
template <typename Word>
TRIACCEL_WIDE_VECTORS void write_elements(const std::uint32_t* __restrict words, std::int64_t count,
                                          Word set, Word* __restrict elements) {
  const auto element = [&](std::uint32_t bits, int i) {
    return (bits & 1u << i) != 0 ? set : Word{0};
  };
  for (std::int64_t word = 0; word < count / 32; ++word) {
    const std::uint32_t bits = words[word];
#pragma omp simd
    for (int i = 0; i < 32; ++i) elements[word * 32 + i] = element(bits, i);
  }
  for (std::int64_t i = count / 32 * 32; i < count; ++i)
    elements[i] = element(words[i / 32], static_cast<int>(i % 32));
}

/// Calls body(first word, element count) for blocks, on all threads.
template <typename Body>
void for_each_block(std::int64_t count, Body body) {
  const std::int64_t blocks = divide_up(count, kBlockWords * 32);
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = block * kBlockWords * 32;
    body(block * kBlockWords, std::min(kBlockWords * 32, count - first));
  }
}

}  // namespace

void encode_mask(MaskedArray array, const void* elements, MaskTest test, std::uint32_t* words) {
  with_mask_element(array.type, [&]<typename Element>(Element) {
    const auto* from = static_cast<const typename Element::Word*>(elements);
    for_each_block(array.count, [&](std::int64_t word, std::int64_t count) {
      write_bits<Element>(from + word * 32, count, test, words + word);
    });
  });
}

void decode_mask(MaskedArray array, const std::uint32_t* words, MaskValue value, void* elements) {
  with_mask_element(array.type, [&]<typename Element>(Element) {
    const typename Element::Word set = Element::set_word(value);
    auto* to = static_cast<typename Element::Word*>(elements);
    for_each_block(array.count, [&](std::int64_t word, std::int64_t count) {
      write_elements(words + word, count, set, to + word * 32);
    });
  });
}

}  // namespace triaccel::kernels::cpu
