#pragma once

#include <cstdint>
#include <type_traits>

#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/common/vector_access.cuh"

namespace triaccel::kernels::cuda {

/// Neighbouring channels of one pixel that a thread moves at once: 16 bytes, or one channel. Halves
/// stay two to a register until they are used.
template <typename Stored, int kPack>
struct ChannelPack {
  using Word = typename Stored::Word;
  using Raw = std::conditional_t<kPack == 1, Word, std::uint32_t>;
  static_assert(kPack == 1 || kPack * sizeof(Word) == 16);
  Raw raw[kPack * sizeof(Word) / sizeof(Raw)];

  __device__ float value(int k) const {
    if constexpr (kPack == 1)
      return Stored::value(raw[0]);
    else if constexpr (sizeof(Word) == 4)
      return float_from_bits(raw[k]);
    else
      return Stored::value(static_cast<Word>(raw[k / 2] >> (k % 2 * 16)));
  }
};

/// Whether what is read may leave the caches first: no kernel of the layer reads it again.
enum class Reuse { Again, Last };

template <typename Stored, int kPack, Reuse kReuse = Reuse::Again>
__device__ ChannelPack<Stored, kPack> load_channels(const void* map, std::int64_t element) {
  const auto* from = static_cast<const typename Stored::Word*>(map) + element;
  if constexpr (kPack == 1) {
    return {*from};
  } else {
    const auto* wide = reinterpret_cast<const uint4*>(from);
    const uint4 raw = kReuse == Reuse::Last ? __ldcs(wide) : *wide;
    return {raw.x, raw.y, raw.z, raw.w};
  }
}

template <typename Stored, int kPack>
__device__ void unpack(const ChannelPack<Stored, kPack>& pack, float (&values)[kPack]) {
#pragma unroll
  for (int k = 0; k < kPack; ++k) values[k] = pack.value(k);
}

/// Rounded to nearest even.
template <typename Stored, int kPack>
__device__ ChannelPack<Stored, kPack> pack_channels(const float (&values)[kPack]) {
  ChannelPack<Stored, kPack> pack;
  if constexpr (kPack == 1) {
    pack.raw[0] = Stored::word(values[0]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(typename Stored::Word) == 4)
        pack.raw[i] = bits_of_float(values[i]);
      else
        pack.raw[i] = rounded_pair(Stored{}, values[2 * i], values[2 * i + 1]);
    }
  }
  return pack;
}

template <typename Stored, int kPack>
__device__ void store_channels(void* map, std::int64_t element,
                               const ChannelPack<Stored, kPack>& pack) {
  auto* to = static_cast<typename Stored::Word*>(map) + element;
  if constexpr (kPack == 1)
    *to = pack.raw[0];
  else  // explicitly: the compiler splits an assignment into four stores
    __stwb(reinterpret_cast<uint4*>(to),
           make_uint4(pack.raw[0], pack.raw[1], pack.raw[2], pack.raw[3]));
}

template <typename Stored, int kPack>
__device__ void store_channels(void* map, std::int64_t element, const float (&values)[kPack]) {
  store_channels(map, element, pack_channels<Stored, kPack>(values));
}

/// body(stored type, channels of a pack as a constant), with the widest pack that the count of
/// channels and the addresses allow.
template <typename Body>
void with_channel_pack(FloatType type, std::int64_t channels, bool aligned, Body body) {
  with_stored_type(type, [&]<typename Stored>(Stored stored) {
    constexpr int wide = 16 / sizeof(typename Stored::Word);
    if (aligned && channels % wide == 0)
      body(stored, std::integral_constant<int, wide>{});
    else
      body(stored, std::integral_constant<int, 1>{});
  });
}

}  // namespace triaccel::kernels::cuda
