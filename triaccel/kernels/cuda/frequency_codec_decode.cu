#include "triaccel/kernels/codec_map_math.h"
#include "triaccel/kernels/cuda/frequency_codec_blocks.cuh"
#include "triaccel/kernels/cuda/frequency_codec_stage.cuh"
#include "triaccel/kernels/cuda/launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct DecodeWork {
  BlockGeometry geometry;
  DecodeTable table;
  OffsetSource offsets;
  CodecMap map;
  std::int64_t channels;  // of the map's scales
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

/// Zero in place of the elements of a block that the gate has no bit for. `whole_words`: from row
/// to row and from column to column lie whole words of the gate, as where channels are dense and
/// come by 32, so that a lane keeps its bit.
template <int block, int first, bool whole_words>
__device__ __forceinline__ void gate_block(const BlockGeometry& geometry, const LaneBlock& place,
                                           const std::uint32_t* gate, ChunkFloats<block>& x) {
  // Elements that the map lacks have no bits; they are not written, and those of others will do.
  const BlockSteps<false> steps = {geometry.row_stride, geometry.column_stride, place.rows - 1,
                                   place.columns - 1};
  std::uint32_t columns[block];
#pragma unroll
  for (int c = 0; c < block; ++c) columns[c] = steps.column(c) / (whole_words ? 32 : 1);
  const int shift = geometry.element_bytes == 4 ? 2 : 1;
  const std::int64_t begin = place.offset >> shift;
  const std::uint32_t bit = 1u << (begin % 32);
#pragma unroll
  for (int r = 0; r < block; ++r) {
    const std::int64_t row = begin + (steps.row(r) >> shift);
#pragma unroll
    for (int c = 0; c < block; ++c) {
      const bool opens = whole_words ? (gate[row / 32 + columns[c]] & bit) != 0
                                     : gate_opens(gate, row + columns[c]);
      if (!opens) x[first + r * block + c] = 0.0f;
    }
  }
}

/// A lane's elements are of one channel.
template <int block>
__device__ __forceinline__ void map_chunk(const DecodeWork& work, std::int32_t unit,
                                          std::int32_t chunk, ChunkFloats<block>& x) {
  constexpr int blocks = blocks_of_chunk(block);
  const BlockGeometry& geometry = work.geometry;
  const std::int32_t channel = geometry.channels(min(unit, geometry.units - 1)).remainder;
  const NormCoefficients norm = codec_norm(work.map, channel);
  if (work.map.activation == Activation::Silu) {
#pragma unroll
    for (float& value : x) value = codec_mapped(value, norm, Activation::Silu);
  } else {
#pragma unroll
    for (float& value : x) value = codec_mapped(value, norm, Activation::None);
  }
  if (work.map.activation != Activation::Relu && work.map.scales == nullptr) return;
  for_constants<blocks>([&](auto number) {
    constexpr int first = number * block * block;
    const LaneBlock place = locate_block<block>(geometry, unit, chunk * blocks + number);
    if (work.map.activation == Activation::Relu) {
      if ((geometry.row_stride / geometry.element_bytes | geometry.column_stride) % 32 == 0)
        gate_block<block, first, true>(geometry, place, work.map.gate, x);
      else
        gate_block<block, first, false>(geometry, place, work.map.gate, x);
    }
    if (work.map.scales == nullptr) return;
    const float scale = work.map.scales[std::int64_t{place.image} * work.channels + channel];
#pragma unroll
    for (int i = first; i < first + block * block; ++i) x[i] *= scale;
  });
}

/// `staged`: the tile is written through shared memory, see frequency_codec_stage.cuh. `mapped`:
/// the map changes elements.
template <int block, bool staged, bool mapped>
__global__ void __launch_bounds__(kTileThreads, 3)
    decode_kernel(const std::uint8_t* codes, char* values,
                  const __grid_constant__ DecodeWork work) {
  constexpr int bits_bytes = sizeof(LaneBits) * kUnitChunks;
  constexpr int bytes =
      staged && kStageBytes < block >> bits_bytes ? kStageBytes<block> : bits_bytes;
  __shared__ alignas(16) char memory[bytes];
  LaneBits* bits = reinterpret_cast<LaneBits*>(memory);
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto chunk = static_cast<std::int32_t>(threadIdx.y);
  const auto tile = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t unit = tile * kTileUnits + lane;
  const bool has_chunk = chunk < chunks_of_tile(work.geometry, tile);
  if (!staged && !has_chunk) return;
  ChunkFloats<block> x;
  if (has_chunk) {
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
    decode_chunk<block>(work, bits[chunk], width, LaneOffsets(work.offsets, unit, chunk), lane,
                        zero, x);
#pragma unroll
    for (int first = 0; first < codes_of_chunk(block); first += block * block) x[first] += middle;
    transform_chunk<block, false>(x);
    if constexpr (mapped) map_chunk<block>(work, unit, chunk, x);
  }
  if constexpr (!staged) {
    store_chunk<block>(work.geometry, values, unit, chunk, x);
  } else {
    const auto store = [&](auto stored) {
      store_staged<block>(stored, work.geometry, values, tile, has_chunk, x, memory);
    };
    if (work.geometry.type == FloatType::F32)
      store(StoredAs<FloatType::F32>{});
    else if (work.geometry.type == FloatType::Bf16)
      store(StoredAs<FloatType::Bf16>{});
    else
      store(StoredAs<FloatType::F16>{});
  }
}

template <int block>
void launch(const FrequencyCoding& coding, const DecodeWork& work, std::int64_t tiles,
            const std::uint8_t* codes, char* values, cudaStream_t stream) {
  const dim3 threads(kTileUnits, kUnitChunks);
  const auto grid = static_cast<unsigned>(tiles);
  const bool staged = coding.map.column_stride == 1 && coding.map.channel_stride != 1;
  const bool mapped = work.map.changes();
  const auto kernel =
      staged ? (mapped ? decode_kernel<block, true, true> : decode_kernel<block, true, false>)
             : (mapped ? decode_kernel<block, false, true> : decode_kernel<block, false, false>);
  kernel<<<grid, threads, 0, stream>>>(codes, values, work);
}

}  // namespace

void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
                      const CodecMap& map, cudaStream_t stream) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  if (layout.tiles == 0) return;
  ensure(map.gate == nullptr || coding.map.offset == 0, "a gate's bits begin with the map");
  const DecodeWork work = {
      .geometry = geometry_of(coding, layout, values),
      .table = decode_table(coding.block, coding.bits),
      .offsets = {DitherDraws(coding.key), coding.rounding == Rounding::Dither},
      .map = map,
      .channels = coding.map.channels};
  const std::int64_t size = coding.type == FloatType::F32 ? 4 : 2;
  char* first = static_cast<char*>(values) + coding.map.offset * size;
  if (coding.block == 8)
    launch<8>(coding, work, layout.tiles, codes, first, stream);
  else if (coding.block == 7)
    launch<7>(coding, work, layout.tiles, codes, first, stream);
  else
    launch<4>(coding, work, layout.tiles, codes, first, stream);
  check_launch("decode_frequency");
}

}  // namespace triaccel::kernels::cuda
