#include "triaccel/kernels/cuda/frequency_codec_blocks.cuh"
#include "triaccel/kernels/cuda/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct DecodeWork {
  BlockGeometry geometry;
  DecodeTable table;
  OffsetSource offsets;
};

/// A lane's bits of a chunk lie in shared memory, where they can be indexed: each lane reads what
/// it wrote itself. Two words more, since the next one is read ahead.
using LaneBits = std::uint32_t[kMostQuads + 2][kTileUnits];

__device__ __forceinline__ void load_bits(const std::uint8_t* codes, std::int32_t chunk_bits,
                                          std::int32_t lane, LaneBits& bits) {
  const std::int32_t whole = chunk_bits / 32, left = chunk_bits % 32;
  const auto* words = reinterpret_cast<const std::uint32_t*>(codes);
  const auto* halves = reinterpret_cast<const std::uint16_t*>(words + whole * kTileUnits);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(halves + (left >= 16 ? kTileUnits : 0));
  std::uint32_t rest = 0;
  if (left >= 16) rest = halves[lane];
  if (left % 16 != 0) rest |= std::uint32_t{bytes[lane]} << left / 16 * 16;
  constexpr int together = 6;  // enough for most plans
#pragma unroll 1
  for (int first = 0; first < whole; first += together) {
    std::uint32_t loaded[together];
#pragma unroll
    for (int i = 0; i < together; ++i)
      if (first + i < whole) loaded[i] = words[(first + i) * kTileUnits + lane];
#pragma unroll
    for (int i = 0; i < together; ++i)
      if (first + i < whole) bits[first + i][lane] = loaded[i];
  }
  bits[whole][lane] = rest;
}

/// A chunk's coefficients, from its codes; `width` is over the transform's gain.
template <int block>
__device__ __forceinline__ void decode_chunk(const DecodeWork& work, const LaneBits& bits,
                                             const float (&width)[kFrequencyBands],
                                             const LaneOffsets& offsets, std::int32_t lane,
                                             std::uint32_t zero, ChunkFloats<block>& x) {
  const DecodeTable& table = work.table;
  const std::uint32_t exponent = kOffsetExponent | zero;
  const std::uint32_t kept = table.words.kept | zero, full = table.words.filling | zero;
  const std::uint32_t* next = &bits[1][lane];
  std::uint32_t low = bits[0][lane], high = *next;
  OffsetWords random = half_offsets();
  for_constants<quads_of_chunk(block)>([&](auto quad) {
    constexpr int left = codes_of_chunk(block) - 4 * quad, count = left < 4 ? left : 4;
    if (quad % 4 == 0 && work.offsets.random && (kept >> quad & 15u) != 0)
      random = offsets.words(work.offsets, quad / 4);
    const std::uint32_t word = __funnelshift_r(low, high, table.positions[quad]);
    std::uint32_t turned = __funnelshift_r(word, word, kFirstTurn);
    for_constants<count>([&](auto i) {
      constexpr int code = 4 * quad + i, place = code % kOffsetsOfCall;
      using Coded = CodedCoefficient<block, code>;
      const QuadDecoding& codes = quad == 0 && block != 4 ? table.first[i] : table.quads[quad];
      const float step = width[Coded::band] * codes.inverse_levels, bias = codes.bias * step;
      x[Coded::number] =
          decoded(turned & codes.mask, offset_bits(random.words[place / 2], place % 2, exponent),
                  step, bias);
      turned = __funnelshift_r(turned, turned, codes.bits);
    });
    if ((full >> quad & 1u) != 0) {
      low = high;
      next += kTileUnits;
      high = *next;
    }
  });
}

template <int block>
__global__ void __launch_bounds__(kTileThreads, 3)
    decode_kernel(const std::uint8_t* codes, char* values,
                  const __grid_constant__ DecodeWork work) {
  __shared__ LaneBits bits[kUnitChunks];
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto chunk = static_cast<std::int32_t>(threadIdx.y);
  const auto tile = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t unit = tile * kTileUnits + lane;
  if (chunk >= chunks_of_tile(work.geometry, tile)) return;
  const UnitRanges ranges = ranges_of(reinterpret_cast<const std::uint64_t*>(codes)[unit]);
  load_bits(codes + chunk_offset(work.geometry, tile, chunk), work.table.words.chunk_bits, lane,
            bits[chunk]);
  constexpr float gain = 1.0f / (gain_of(block) * gain_of(block));
  float width[kFrequencyBands];
#pragma unroll
  for (int band = 0; band < kFrequencyBands; ++band)
    width[band] = band_range(ranges, band) * kWidth * gain;
  const float middle = middle_of(ranges) * gain;
  // No unit is negative: a zero that nvcc does not know, to keep constants in registers with.
  const std::uint32_t zero = static_cast<std::uint32_t>(unit) >> 31;
  ChunkFloats<block> x;
  decode_chunk<block>(work, bits[chunk], width, LaneOffsets(work.offsets, unit, chunk), lane, zero,
                      x);
#pragma unroll
  for (int first = 0; first < codes_of_chunk(block); first += block * block) x[first] += middle;
  transform_chunk<block, false>(x);
  store_chunk<block>(work.geometry, values, unit, chunk, x);
}

}  // namespace

void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
                      cudaStream_t stream) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  if (layout.tiles == 0) return;
  const DecodeWork work = {
      .geometry = geometry_of(coding, layout, values),
      .table = decode_table(coding.block, coding.bits),
      .offsets = OffsetSource(coding.key, coding.rounding == Rounding::Dither)};
  const std::int64_t size = coding.type == FloatType::F32 ? 4 : 2;
  char* first = static_cast<char*>(values) + coding.map.offset * size;
  const dim3 threads(kTileUnits, kUnitChunks);
  const auto tiles = static_cast<unsigned>(layout.tiles);
  if (coding.block == 8)
    decode_kernel<8><<<tiles, threads, 0, stream>>>(codes, first, work);
  else if (coding.block == 7)
    decode_kernel<7><<<tiles, threads, 0, stream>>>(codes, first, work);
  else
    decode_kernel<4><<<tiles, threads, 0, stream>>>(codes, first, work);
  check_launch("decode_frequency");
}

}  // namespace triaccel::kernels::cuda
