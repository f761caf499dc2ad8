#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec.cuh"

namespace triaccel::kernels::cuda {
namespace {

using Rows = float[kNonZeroGroups][kQuad];

template <typename Stored>
__device__ void load_quad(const typename Stored::Word* from, float (&to)[kQuad]) {
  if constexpr (sizeof(typename Stored::Word) == 4) {
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
  } else {
    const uint2 quad = *reinterpret_cast<const uint2*>(from);
    to[0] = Stored::value(static_cast<std::uint16_t>(quad.x));
    to[1] = Stored::value(static_cast<std::uint16_t>(quad.x >> 16));
    to[2] = Stored::value(static_cast<std::uint16_t>(quad.y));
    to[3] = Stored::value(static_cast<std::uint16_t>(quad.y >> 16));
  }
}

template <typename Stored>
__device__ void load_rows(const void* values, const NonZeroWork& work, const NonZeroPlace& at,
                          Rows& rows) {
  const auto* from = static_cast<const typename Stored::Word*>(values);
  if (at.is_whole(work)) {
#pragma unroll
    for (int row = 0; row < kNonZeroGroups; ++row)
      load_quad<Stored>(from + at.element(row), rows[row]);
    return;
  }
#pragma unroll
  for (int row = 0; row < kNonZeroGroups; ++row)
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const std::int64_t element = at.element(row) + i;
      rows[row][i] = element < work.count ? Stored::value(from[element]) : 0.0f;
    }
}

template <typename Number>
__device__ Number warp_maximum(Number value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
  for (int step = 1; step < 32; step *= 2)
    value = max(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
#endif
}

/// The largest of a row's bits, as Number, for the row whose number is lane % 8.
template <typename Number>
__device__ Number row_maximum(const Rows& rows, int lane) {
  Number own = 0;
#pragma unroll
  for (int row = 0; row < kNonZeroGroups; ++row) {
    Number largest = static_cast<Number>(__float_as_uint(rows[row][0]));
#pragma unroll
    for (int i = 1; i < kQuad; ++i)
      largest = max(largest, static_cast<Number>(__float_as_uint(rows[row][i])));
    largest = warp_maximum(largest);
    if (lane % kNonZeroGroups == row) own = largest;
  }
  return own;
}

/// The range of the group whose number is lane % 8.
__device__ std::uint32_t lane_range(const Rows& rows, int lane) {
  const auto furthest = row_maximum<std::uint32_t>(rows, lane);
  // The same number unless one is below zero, and most often none is.
  auto largest = static_cast<std::int32_t>(furthest);
  if (__any_sync(kAllLanes, largest < 0)) largest = row_maximum<std::int32_t>(rows, lane);
  return nonzero_range(largest, furthest);
}

/// Zeros in place of all values of groups that are not finite.
__device__ void clear_not_finite(std::uint32_t lane_range, Rows& rows) {
#pragma unroll
  for (int row = 0; row < kNonZeroGroups; ++row)
    if (is_not_finite(__shfl_sync(kAllLanes, lane_range, row)))
#pragma unroll
      for (int i = 0; i < kQuad; ++i) rows[row][i] = 0.0f;
}

/// Sets a bit where the value is not zero, in two instructions.
__device__ void set_if_nonzero(float value, std::uint32_t bit, std::uint32_t& bits) {
#ifdef __CUDA_ARCH__
  asm("{ .reg .pred p; setp.neu.f32 p, %1, 0f00000000; @p or.b32 %0, %0, %2; }"
      : "+r"(bits)
      : "f"(value), "r"(bit));
#else
  if (value != 0.0f) bits |= bit;
#endif
}

/// Adding 2^39, rounded down, leaves a place's code in the lowest bits, below the number's own.
constexpr float kCodeBase = 0x1.0p39f;
constexpr std::uint32_t kCodeBaseBits = 0x53000000u;

/// A number that stays itself when it is multiplied by `levels` and kCodeBaseBits is added, modulo
/// 2^32: joined to it, codes need not be freed of those bits one by one.
__device__ std::uint32_t still_number(std::uint32_t levels) {
  std::uint32_t number = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) number = number * levels + kCodeBaseBits;
  return number;
}

struct alignas(16) QuadGrid {
  CodeGrid grid;
  std::uint32_t levels;
  std::uint32_t still;  // still_number(levels)
};

/// Where offsets are made from random bits on top of 2^23 instead of converted ones.
struct OffsetWork {
  OffsetRule rule;
  std::uint32_t two_to_23 = 0x4b000000u;  // an argument: an instruction holds one constant only

  explicit OffsetWork(Rounding rounding) : rule(offset_rule(rounding)) {
    rule.addend -= rule.factor * 0x1.0p23f;  // exact, as are the sums of code_grid
  }
  __device__ float offset(std::uint32_t word, int half, float zero) const {
    const std::uint32_t bits = __byte_perm(word, two_to_23, half == 0 ? 0x7410 : 0x7432);
    return fmaf(__uint_as_float(bits), rule.factor, zero);
  }
};

/// What a warp works on between its lanes.
struct EncodeMemory {
  QuadGrid grids[2][kNonZeroGroups];  // [wide][group]
  alignas(16) std::uint32_t record[nonzero_record_words(kMaxNonZeroEighths)];
};

/// The codes of those of a quad's values that have a bit, one behind the other.
__device__ std::uint32_t joined_codes(const float (&values)[kQuad], std::uint32_t bits,
                                      const std::uint32_t* random, const OffsetWork& offsets,
                                      const QuadGrid quad) {
  std::uint32_t joined = quad.still;
#pragma unroll
  for (int i = kQuad - 1; i >= 0; --i) {
    const float place =
        values[i] * quad.grid.scale + offsets.offset(random[i / 2], i % 2, quad.grid.zero);
    const std::uint32_t code = __float_as_uint(__fadd_rd(place, kCodeBase));
    if (bits >> i & 1u) joined = joined * quad.levels + code;
  }
  return joined - quad.still;
}

/// Puts the quads of this lane's word behind those of the lanes before.
__device__ void write_quads(const std::uint32_t (&quads)[kWordQuads], const WordCodes& codes,
                            std::uint32_t* room) {
  std::uint32_t* to = room + codes.place / 32;
  std::uint32_t waiting = 0, filled = codes.place % 32;
#pragma unroll
  for (int quad = 0; quad < kWordQuads; ++quad) {
    const std::uint32_t beyond = __funnelshift_l(quads[quad], 0u, filled);
    waiting |= quads[quad] << filled;
    filled += codes.length(quad);
    if (filled >= 32) {
      atomicOr(to, waiting);
      waiting = beyond;
    }
    to += filled / 32;
    filled %= 32;
  }
  if (waiting != 0) atomicOr(to, waiting);
}

template <typename Stored>
__global__ void __launch_bounds__(kNonZeroThreads)
    encode_kernel(const void* values, NonZeroMask mask, uint4* records, std::int32_t* not_finite,
                  const __grid_constant__ NonZeroWork work,
                  const __grid_constant__ OffsetWork offsets) {
  __shared__ EncodeMemory memories[kNonZeroBlock];
  const NonZeroPlace at = nonzero_place();
  if (at.tile >= work.tiles) return;
  EncodeMemory& memory = memories[at.warp];
  std::uint32_t* room = memory.record + 4;
  Rows rows;
  load_rows<Stored>(values, work, at, rows);

  // The mask, both as the bits of this lane's quads and as its word.
  std::uint32_t bits = 0, word = 0;
  if (mask.given != nullptr) {
    if (at.has_word(work)) word = mask.given[at.tile * kNonZeroWords + at.lane];
    bits = across_lanes<kQuad>(__shfl_sync(kAllLanes, word, word_of_lane<kQuad>()));
#pragma unroll
    for (int i = 0; i < kNonZeroGroups * kQuad; ++i)
      if (!(bits >> i & 1u)) rows[i / kQuad][i % kQuad] = 0.0f;
  } else {
#pragma unroll
    for (int i = 0; i < kNonZeroGroups * kQuad; ++i)
      set_if_nonzero(rows[i / kQuad][i % kQuad], 1u << i, bits);
    word = __shfl_sync(kAllLanes, across_lanes<kQuad>(bits), lane_of_word<kQuad>(at.lane));
    if (at.has_word(work)) mask.written[at.tile * kNonZeroWords + at.lane] = word;
  }
  const WordCodes codes = word_codes(word, work.eighths, at.lane);

  const std::uint32_t range = lane_range(rows, at.lane);
  const int group = at.lane % kNonZeroGroups, wide = at.lane / kNonZeroGroups;
  if (wide < 2) {
    const std::uint32_t width = codes.narrow + wide;
    memory.grids[wide][group] = {code_grid(range, width, offsets.rule), 1u << width,
                                 still_number(1u << width)};
  }
  if (wide == 0) {
    reinterpret_cast<std::uint16_t*>(memory.record)[group] = static_cast<std::uint16_t>(range);
    if (not_finite != nullptr && is_not_finite(range)) atomicAdd(not_finite, 1);
  }
  if (__any_sync(kAllLanes, is_not_finite(range))) clear_not_finite(range, rows);
  __syncwarp();

  const std::uint64_t high = work.draws.high();
#pragma unroll
  for (int four = 0; four < kNonZeroGroups / kCallGroups; ++four) {
    const OffsetWords random =
        offset_words(work.draws.words(dither_call(at.tile, four, at.lane), high));
#pragma unroll
    for (int group = 0; group < kCallGroups; ++group) {
      const int row = four * kCallGroups + group;
      room[row * 32 + at.lane] =
          joined_codes(rows[row], bits >> row * kQuad, random.words + group * 2, offsets,
                       memory.grids[codes.is_wide(row, at.lane)][row]);
    }
  }
  __syncwarp();
  std::uint32_t quads[kWordQuads];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 four = reinterpret_cast<const uint4*>(room)[at.lane * 2 + i];
    quads[i * 4] = four.x, quads[i * 4 + 1] = four.y;
    quads[i * 4 + 2] = four.z, quads[i * 4 + 3] = four.w;
  }
  __syncwarp();
#pragma unroll 1
  for (int i = at.lane; i < work.eighths; i += 32)
    reinterpret_cast<uint4*>(room)[i] = make_uint4(0, 0, 0, 0);
  __syncwarp();
  write_quads(quads, codes, room);
  __syncwarp();
  uint4* to = records + at.tile * (1 + work.eighths);
#pragma unroll 1
  for (int i = at.lane; i <= work.eighths; i += 32)
    __stwb(to + i, reinterpret_cast<const uint4*>(memory.record)[i]);
}

}  // namespace

void encode_nonzeros(const NonZeroCoding& coding, const void* values, NonZeroMask mask,
                     void* records, std::int32_t* not_finite, cudaStream_t stream) {
  if (coding.count == 0) return;
  const NonZeroWork work = nonzero_work(coding, values);
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    encode_kernel<Stored><<<blocks_for(work.tiles, kNonZeroBlock), kNonZeroThreads, 0, stream>>>(
        values, mask, static_cast<uint4*>(records), not_finite, work, OffsetWork(coding.rounding));
  });
  check_launch("encode_nonzeros");
}

}  // namespace triaccel::kernels::cuda
