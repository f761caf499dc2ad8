#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec_blocks.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec_channels.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec_stage.cuh"

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
  std::uint32_t inverse[kFrequencyBands][kTileUnits];  // bits of inverse_width
  float middle[kTileUnits];
  std::uint32_t fraction_inverse[32];  // bits of 1 / width, times 2^127, by the range's fraction
  std::uint32_t exponent;  // kOffsetExponent, where nvcc does not know it: it stays in a register
};

__device__ float largest_of(const float (&chunks)[kUnitChunks][kTileUnits], std::int32_t lane) {
  float largest = chunks[0][lane];
#pragma unroll
  for (int i = 1; i < kUnitChunks; ++i) largest = larger(largest, chunks[i][lane]);
  return largest;
}

/// Bits of inverse_width, without a division: the power of two is taken off the fraction's inverse.
__device__ std::uint32_t inverse_bits(std::uint32_t code, const SharedRanges& shared) {
  return shared.fraction_inverse[code % 32] - (code / 32 << 23);
}

/// What codes of a lane's unit are scaled by.
struct UnitScales {
  UnitRanges ranges;
  float inverse[kFrequencyBands];
};

/// From the extremes of the unit's eight chunks; each band is joined by one warp.
__device__ __forceinline__ UnitScales joined(const ChunkExtremes& own, std::int32_t lane,
                                             std::int32_t chunk, SharedRanges& shared) {
#pragma unroll
  for (int i = 0; i < kExtremes; ++i) shared.extremes[i][chunk][lane] = own.values[i];
  if (chunk == kUnitChunks - 1) {
    shared.fraction_inverse[lane] =
        bits_of_float(inverse_width(float_from_bits(0x3f800000u | lane << kRangeShift))) +
        0x3f800000u;
    shared.exponent = kOffsetExponent;
  }
  __syncthreads();
  if (chunk < kFrequencyBands) {
    float range;
    if (chunk == 0) {
      const MiddleRange first =
          middle_range(largest_of(shared.extremes[0], lane), largest_of(shared.extremes[1], lane));
      range = first.range;
      shared.middle[lane] = first.middle;
    } else {
      range = largest_of(shared.extremes[chunk + 1], lane);
    }
    const std::uint32_t code = range_code(range);
    shared.codes[chunk][lane] = code;
    shared.inverse[chunk][lane] = code == 0 ? 0 : inverse_bits(code, shared);
  }
  __syncthreads();
  std::uint32_t codes[kFrequencyBands];
#pragma unroll
  for (int band = 0; band < kFrequencyBands; ++band) codes[band] = shared.codes[band][lane];
  UnitScales scales = {unit_ranges(codes, shared.middle[lane])};
  // A header has no range that is further below the largest one: of two inverses the smaller one is
  // the wider range's.
  const std::uint32_t narrowest = inverse_bits(scales.ranges.largest - kMaxBelow, shared);
#pragma unroll
  for (int band = 0; band < kFrequencyBands; ++band)
    scales.inverse[band] = float_from_bits(min(shared.inverse[band][lane], narrowest));
  return scales;
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

/// Codes and stores a lane's bits, word by word as they fill. `exponent` is kOffsetExponent.
template <int block>
__device__ __forceinline__ void store_codes(const EncodeWork& work, const ChunkFloats<block>& x,
                                            const float (&inverse)[kFrequencyBands],
                                            const OffsetWords& first, std::int32_t lane,
                                            std::uint32_t exponent, std::uint8_t* codes) {
  const EncodeTable& table = work.table;
  const QuadWords& words = table.words;
  auto* next = reinterpret_cast<std::uint32_t*>(codes) + lane;
  std::uint32_t filling = 0;
  for_constants<(quads_of_chunk(block) + 3) / 4>([&](auto four) {
    if ((words.kept >> four * 4 & 15u) == 0) return;
    const OffsetWords random = work.offsets.random ? chunk_offsets(first, four) : first;
    constexpr int left = quads_of_chunk(block) - four * 4;
    for_constants<(left < 4 ? left : 4)>([&](auto i) {
      constexpr int quad = four * 4 + i;
      const std::uint32_t sum =
          quad_sum<block, quad>(table, x, inverse, random.words, exponent) + table.quads[quad].rest;
      const std::uint32_t value = table.quads[quad].position_value;
      filling += sum * value;
      if ((words.filling >> quad & 1u) != 0) {
        __syncwarp();  // or ptxas would have all quads pass by these instructions
        __stwb(next, filling);
        next += kTileUnits;
        filling = __umulhi(sum, value);  // what did not find room
      }
    });
  });
  const std::int32_t left = words.chunk_bits % 32;
  std::uint8_t* rest = codes + words.chunk_bits / 32 * (kTileUnits * 4);
  if (left >= 16)
    reinterpret_cast<std::uint16_t*>(rest)[lane] = static_cast<std::uint16_t>(filling);
  if (left % 16 != 0)
    rest[(left >= 16 ? kTileUnits * 2 : 0) + lane] =
        static_cast<std::uint8_t>(filling >> left / 16 * 16);
}

template <int block, Access access>
inline constexpr int kLoadBytes = access == Access::Rows ? kStageBytes<block>
                                  : access == Access::Channels
                                      ? static_cast<int>(sizeof(ChannelStage<block>)) * kUnitChunks
                                      : 16;  // not needed

template <int block, Access access>
__global__ void __launch_bounds__(kTileThreads, 3)
    encode_kernel(const char* values, std::uint8_t* codes, std::int32_t* not_finite,
                  const __grid_constant__ EncodeWork work) {
  __shared__ alignas(16) char stage[kLoadBytes<block, access>];
  __shared__ SharedRanges shared;
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto chunk = static_cast<std::int32_t>(threadIdx.y);
  const auto tile = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t unit = tile * kTileUnits + lane;
  ChunkFloats<block> x;
  if constexpr (access == Access::Rows)
    with_stored_type(work.geometry.type, [&](auto stored) {
      load_staged<block>(stored, work.geometry, values, tile, chunk, stage, x);
    });
  else if constexpr (access == Access::Channels)
    load_channels<block>(work.geometry, values, unit, chunk,
                         reinterpret_cast<ChannelStage<block>*>(stage)[chunk], x);
  else
    load_chunk<block>(work.geometry, values, unit, chunk, x);
  const std::uint64_t high = work.offsets.draws.high();  // long before it is needed
  transform_chunk<block, true>(x);
  UnitScales scales = joined(extremes_of<block>(x), lane, chunk, shared);
  const bool finite = is_finite(scales.ranges);
  if (chunk == 0) {
    reinterpret_cast<std::uint64_t*>(codes)[unit] = header_of(scales.ranges);
    const unsigned lost = __ballot_sync(~0u, !finite && unit < work.geometry.units);
    if (lost != 0 && lane == 0 && not_finite != nullptr) atomicAdd(not_finite, __popc(lost));
  }
  if (chunk >= chunks_of_tile(work.geometry, tile)) return;
  const float middle = middle_of(scales.ranges);
#pragma unroll
  for (int first = 0; first < codes_of_chunk(block); first += block * block) x[first] -= middle;
  if (__any_sync(~0u, !finite)) {
    for_constants<codes_of_chunk(block)>([&](auto i) { x[i] = finite ? x[i] : 0.0f; });
    for_constants<kFrequencyBands>(
        [&](auto band) { scales.inverse[band] = finite ? scales.inverse[band] : 0.0f; });
  }
  store_codes<block>(work, x, scales.inverse, first_offsets(work.offsets, high, unit, chunk), lane,
                     shared.exponent, codes + chunk_offset(work.geometry, tile, chunk));
}

template <int block>
void launch(const EncodeWork& work, std::int64_t tiles, const char* values, std::uint8_t* codes,
            std::int32_t* not_finite, cudaStream_t stream) {
  const dim3 threads(kTileUnits, kUnitChunks);
  const BlockGeometry& geometry = work.geometry;
  // Rows of floats that may be read by vectors go straight to registers, not by the stage.
  const bool direct = geometry.type == FloatType::F32 && geometry.whole_rows;
  const Access access = direct ? Access::Elements : geometry.access;
  const auto kernel = access == Access::Rows       ? encode_kernel<block, Access::Rows>
                      : access == Access::Channels ? encode_kernel<block, Access::Channels>
                                                   : encode_kernel<block, Access::Elements>;
  kernel<<<static_cast<unsigned>(tiles), threads, 0, stream>>>(values, codes, not_finite, work);
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
  if (coding.block == 8)
    launch<8>(work, layout.tiles, first, codes, not_finite, stream);
  else if (coding.block == 7)
    launch<7>(work, layout.tiles, first, codes, not_finite, stream);
  else
    launch<4>(work, layout.tiles, first, codes, not_finite, stream);
  check_launch("encode_frequency");
}

}  // namespace triaccel::kernels::cuda
