#include "triaccel/kernels/cuda/frequency_codec_blocks.cuh"
#include "triaccel/kernels/cuda/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct EncodeWork {
  BlockGeometry geometry;
  EncodeTable table;
  OffsetSource offsets;
};

/// What one chunk has; see kExtremes.
struct ChunkExtremes {
  float values[kExtremes];
};

template <int block>
__device__ __forceinline__ ChunkExtremes extremes_of(const ChunkFloats<block>& x) {
  ChunkExtremes extremes;
  extremes.values[0] = x[0];
  extremes.values[1] = -x[0];
#pragma unroll
  for (int band = 1; band < kFrequencyBands; ++band) extremes.values[band + 1] = 0.0f;
  for_constants<codes_of_chunk(block)>([&](auto code) {
    using Coded = CodedCoefficient<block, code>;
    const float value = x[Coded::number];
    if constexpr (Coded::band > 0) {
      float& extreme = extremes.values[Coded::band + 1];
      extreme = larger(extreme, magnitude(value));
    } else if constexpr (code > 0) {
      extremes.values[0] = larger(extremes.values[0], value);
      extremes.values[1] = larger(extremes.values[1], -value);
    }
  });
  return extremes;
}

struct SharedRanges {
  float extremes[kExtremes][kUnitChunks][kTileUnits];
  std::uint32_t codes[kFrequencyBands][kTileUnits];
  float middle[kTileUnits];
  std::uint32_t inverse_bits[32];  // of 1 / width, times 2^127, by the fraction of the range
};

__device__ float largest_of(const float (&chunks)[kUnitChunks][kTileUnits], std::int32_t lane) {
  float largest = chunks[0][lane];
#pragma unroll
  for (int i = 1; i < kUnitChunks; ++i) largest = larger(largest, chunks[i][lane]);
  return largest;
}

/// The ranges of a lane's unit, from the extremes of its eight chunks; each band is joined by one
/// warp.
__device__ __forceinline__ UnitRanges joined(const ChunkExtremes& own, std::int32_t lane,
                                             std::int32_t chunk, SharedRanges& shared) {
#pragma unroll
  for (int i = 0; i < kExtremes; ++i) shared.extremes[i][chunk][lane] = own.values[i];
  if (chunk == kUnitChunks - 1)
    shared.inverse_bits[lane] =
        bits_of_float(inverse_width(float_from_bits(0x3f800000u | lane << kRangeShift))) +
        0x3f800000u;
  __syncthreads();
  if (chunk == 0) {
    const MiddleRange first =
        middle_range(largest_of(shared.extremes[0], lane), largest_of(shared.extremes[1], lane));
    shared.codes[0][lane] = range_code(first.range);
    shared.middle[lane] = first.middle;
  } else if (chunk < kFrequencyBands) {
    shared.codes[chunk][lane] = range_code(largest_of(shared.extremes[chunk + 1], lane));
  }
  __syncthreads();
  std::uint32_t codes[kFrequencyBands];
#pragma unroll
  for (int band = 0; band < kFrequencyBands; ++band) codes[band] = shared.codes[band][lane];
  return unit_ranges(codes, shared.middle[lane]);
}

/// inverse_width without a division: the power of two is taken off the inverse of the fraction.
__device__ float inverse_width(const UnitRanges& ranges, int band, const SharedRanges& shared) {
  const std::uint32_t code = ranges.largest - ranges.below[band];
  const std::uint32_t bits = shared.inverse_bits[code % 32] - (code / 32 << 23);
  return ranges.below[band] == kZeroBand ? 0.0f : float_from_bits(bits);
}

/// The codes of a quad in one word, without QuadEncoding::rest.
template <int block, int quad>
__device__ __forceinline__ std::uint32_t quad_sum(const EncodeTable& table,
                                                  const ChunkFloats<block>& x,
                                                  const float (&inverse)[kFrequencyBands],
                                                  const std::uint32_t (&words)[8],
                                                  std::uint32_t exponent) {
  constexpr int left = codes_of_chunk(block) - 4 * quad, count = left < 4 ? left : 4;
  std::uint32_t sum = 0;
  for_constants<count>([&](auto i) {
    if constexpr (quad == 0 && block != 4) {
      using Coded = CodedCoefficient<block, i>;
      const float scale = inverse[Coded::band] * table.first_levels_less_one[i];
      sum += code_bits(x[Coded::number], scale, offset_bits(words[i / 2], i % 2, exponent)) *
             table.first_values[i];
    } else {  // from the last one to the first
      constexpr int code = 4 * quad + count - 1 - i, place = code % kOffsetsOfCall;
      using Coded = CodedCoefficient<block, code>;
      const float scale = inverse[Coded::band] * table.quads[quad].levels_less_one;
      const std::uint32_t bits =
          code_bits(x[Coded::number], scale, offset_bits(words[place / 2], place % 2, exponent));
      sum = i == 0 ? bits : sum * table.quads[quad].factor + bits;
    }
  });
  return sum;
}

/// Codes and stores a lane's bits, word by word as they fill.
template <int block>
__device__ __forceinline__ void store_codes(const EncodeWork& work, const ChunkFloats<block>& x,
                                            const float (&inverse)[kFrequencyBands],
                                            const LaneOffsets& offsets, std::int32_t lane,
                                            std::uint32_t zero, std::uint8_t* codes) {
  const EncodeTable& table = work.table;
  auto* words = reinterpret_cast<std::uint32_t*>(codes) + lane;
  asm volatile("" : "+l"(words));  // nvcc would work it out again wherever a word is full
  const std::uint32_t exponent = kOffsetExponent | zero;
  const std::uint32_t kept = table.words.kept | zero, full = table.words.filling | zero;
  std::uint32_t filling = 0, filled = 0;
  OffsetWords random = half_offsets();
  for_constants<quads_of_chunk(block)>([&](auto quad) {
    if (quad % 4 == 0 && work.offsets.random && (kept >> quad & 15u) != 0)
      random = offsets.words(work.offsets, quad / 4);
    if ((kept >> quad & 1u) == 0) return;
    const std::uint32_t sum =
        quad_sum<block, quad>(table, x, inverse, random.words, exponent) + table.quads[quad].rest;
    const std::uint32_t value = table.quads[quad].position_value;
    filling += sum * value;
    if ((full >> quad & 1u) != 0) {
      __stwb(words + filled * kTileUnits, filling);
      ++filled;
      filling = __umulhi(sum, value);  // what did not find room
    }
  });
  const std::int32_t left = table.words.chunk_bits % 32;
  auto* rest = reinterpret_cast<std::uint16_t*>(words + filled * kTileUnits - lane) + lane;
  if (left >= 16) *rest = static_cast<std::uint16_t>(filling);
  if (left % 16 != 0)
    reinterpret_cast<std::uint8_t*>(rest - lane + (left >= 16 ? kTileUnits : 0))[lane] =
        static_cast<std::uint8_t>(filling >> left / 16 * 16);
}

template <int block>
__global__ void __launch_bounds__(kTileThreads, 3)
    encode_kernel(const char* values, std::uint8_t* codes, std::int32_t* not_finite,
                  const __grid_constant__ EncodeWork work) {
  __shared__ SharedRanges shared;
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto chunk = static_cast<std::int32_t>(threadIdx.y);
  const auto tile = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t unit = tile * kTileUnits + lane;
  ChunkFloats<block> x;
  load_chunk<block>(work.geometry, values, unit, chunk, x);
  transform_chunk<block, true>(x);
  const UnitRanges ranges = joined(extremes_of<block>(x), lane, chunk, shared);
  if (chunk == 0) {
    reinterpret_cast<std::uint64_t*>(codes)[unit] = header_of(ranges);
    const unsigned lost = __ballot_sync(~0u, !is_finite(ranges) && unit < work.geometry.units);
    if (lost != 0 && lane == 0 && not_finite != nullptr) atomicAdd(not_finite, __popc(lost));
  }
  if (chunk >= chunks_of_tile(work.geometry, tile)) return;
  float inverse[kFrequencyBands];
#pragma unroll
  for (int band = 0; band < kFrequencyBands; ++band)
    inverse[band] = inverse_width(ranges, band, shared);
  const float middle = middle_of(ranges);
#pragma unroll
  for (int first = 0; first < codes_of_chunk(block); first += block * block) x[first] -= middle;
  if (__any_sync(~0u, !is_finite(ranges))) {
    const bool kept = is_finite(ranges);
#pragma unroll
    for (float& value : x) value = kept ? value : 0.0f;
#pragma unroll
    for (float& value : inverse) value = kept ? value : 0.0f;
  }
  // No unit is negative: a zero that nvcc does not know, to keep constants in registers with.
  const std::uint32_t zero = static_cast<std::uint32_t>(unit) >> 31;
  store_codes<block>(work, x, inverse, LaneOffsets(work.offsets, unit, chunk), lane, zero,
                     codes + chunk_offset(work.geometry, tile, chunk));
}

}  // namespace

void encode_frequency(const FrequencyCoding& coding, const void* values, std::uint8_t* codes,
                      std::int32_t* not_finite, cudaStream_t stream) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  if (layout.tiles == 0) return;
  const EncodeWork work = {
      .geometry = geometry_of(coding, layout, values),
      .table = encode_table(coding.block, coding.bits),
      .offsets = {DitherDraws(coding.key), coding.rounding != Rounding::Nearest}};
  const std::int64_t size = coding.type == FloatType::F32 ? 4 : 2;
  const char* first = static_cast<const char*>(values) + coding.map.offset * size;
  const dim3 threads(kTileUnits, kUnitChunks);
  const auto tiles = static_cast<unsigned>(layout.tiles);
  if (coding.block == 8)
    encode_kernel<8><<<tiles, threads, 0, stream>>>(first, codes, not_finite, work);
  else if (coding.block == 7)
    encode_kernel<7><<<tiles, threads, 0, stream>>>(first, codes, not_finite, work);
  else
    encode_kernel<4><<<tiles, threads, 0, stream>>>(first, codes, not_finite, work);
  check_launch("encode_frequency");
}

}  // namespace triaccel::kernels::cuda
