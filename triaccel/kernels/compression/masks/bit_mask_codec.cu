#include "triaccel/kernels/compression/masks/bit_mask_codec.cuh"

#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/common/vector_access.cuh"
#include "triaccel/kernels/compression/masks/bit_mask_codec.h"

// A warp takes 1,024 elements: see Note [Tiles of bits].
namespace triaccel::kernels::cuda {
namespace {

constexpr int kTile = 1024;
constexpr int kBlockTiles = kThreads / 32;

struct TileOfBits {
  std::int64_t first;  // element
  int lane;

  __device__ bool is_whole(std::int64_t count) const { return first + kTile <= count; }
};

__device__ TileOfBits this_tile() {
  return {(std::int64_t{blockIdx.x} * kBlockTiles + threadIdx.x / 32) * kTile,
          static_cast<int>(threadIdx.x % 32)};
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    encode_kernel(const typename Element::Word* elements, std::int64_t count, bool aligned,
                  MaskTest test, std::uint32_t* words) {
  using Elements = WordPack<typename Element::Word>;
  constexpr int pack = Elements::kWords;
  const TileOfBits tile = this_tile();
  if (tile.first >= count) return;
  std::uint32_t bits = 0;
  if (aligned && tile.is_whole(count)) {
    Elements rows[kRows<pack>];
    const auto* from = reinterpret_cast<const Elements*>(elements + tile.first) + tile.lane;
#pragma unroll
    for (int row = 0; row < kRows<pack>; ++row) rows[row] = from[row * 32];
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (Element::is_set(rows[i / pack].words[i % pack], test)) bits |= 1u << i;
  } else {
    for (int i = 0; i < 32; ++i) {
      const std::int64_t at = tile.first + (i / pack * 32 + tile.lane) * pack + i % pack;
      if (at < count && Element::is_set(elements[at], test)) bits |= 1u << i;
    }
  }
  bits = across_lanes<pack>(bits);
  const std::int64_t word = tile.first / 32 + word_of_lane<pack>();
  if (word * 32 < count) words[word] = bits;
}

/// Sixteen bits as bytes of 0 and 1.
__device__ uint4 bytes_of(std::uint32_t bits) {
  const auto four = [&](int shift) { return (bits >> shift & 15u) * 0x204081u & 0x01010101u; };
  return {four(0), four(4), four(8), four(12)};
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(const std::uint32_t* words, std::int64_t count, bool aligned, MaskValue value,
                  typename Element::Word* elements) {
  using Word = typename Element::Word;
  using Elements = WordPack<Word>;
  constexpr int pack = Elements::kWords;
  const TileOfBits tile = this_tile();
  if (tile.first >= count) return;
  const std::int64_t word = tile.first / 32 + word_of_lane<pack>();
  const std::uint32_t bits = across_lanes<pack>(word * 32 < count ? words[word] : 0u);
  const Word set = Element::set_word(value);
  if (aligned && tile.is_whole(count)) {
    auto* to = reinterpret_cast<Elements*>(elements + tile.first) + tile.lane;
#pragma unroll
    for (int row = 0; row < kRows<pack>; ++row) {
      uint4 raw;
      if constexpr (sizeof(Word) == 1) {
        raw = bytes_of(bits >> row * pack);
      } else {
        Elements out;
#pragma unroll
        for (int i = 0; i < pack; ++i) out.words[i] = bits >> (row * pack + i) & 1u ? set : Word{0};
        memcpy(&raw, &out, sizeof raw);
      }
      __stwb(reinterpret_cast<uint4*>(to + row * 32), raw);
    }
  } else {
    for (int i = 0; i < 32; ++i) {
      const std::int64_t at = tile.first + (i / pack * 32 + tile.lane) * pack + i % pack;
      if (at < count) elements[at] = bits >> i & 1u ? set : Word{0};
    }
  }
}

}  // namespace

void encode_mask(MaskedArray array, const void* elements, MaskTest test, std::uint32_t* words,
                 cudaStream_t stream) {
  if (array.count == 0) return;
  with_mask_element(array.type, [&]<typename Element>(Element) {
    encode_kernel<Element><<<blocks_for(array.count, kBlockTiles * kTile), kThreads, 0, stream>>>(
        static_cast<const typename Element::Word*>(elements), array.count,
        aligned_for_vectors(elements), test, words);
  });
  check_launch("encode_mask");
}

void decode_mask(MaskedArray array, const std::uint32_t* words, MaskValue value, void* elements,
                 cudaStream_t stream) {
  if (array.count == 0) return;
  with_mask_element(array.type, [&]<typename Element>(Element) {
    decode_kernel<Element><<<blocks_for(array.count, kBlockTiles * kTile), kThreads, 0, stream>>>(
        words, array.count, aligned_for_vectors(elements), value,
        static_cast<typename Element::Word*>(elements));
  });
  check_launch("decode_mask");
}

}  // namespace triaccel::kernels::cuda
