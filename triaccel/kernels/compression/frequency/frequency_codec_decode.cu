#include <bit>

#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/codec_map_math.h"
#include "triaccel/kernels/compression/frequency/frequency_codec_blocks.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec_channels.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec_stage.cuh"

namespace triaccel::kernels::cuda {
namespace {

/// Where a quad's bits begin among those of a lane.
struct QuadPlace {
  std::uint32_t bytes;  // of LaneBits
  std::uint32_t shift;
};

struct DecodeWork {
  BlockGeometry geometry;
  DecodeTable table;
  QuadPlace places[kMaxQuads];
  OffsetSource offsets;
  CodecMap map;
  std::int64_t channels;  // of the map's scales
};

/// What a map does to elements, in addition to scaling them.
enum class Mapping : std::uint8_t {
  None,  // nor are they scaled
  Norm,
  Silu,
  Gate,
  GateWords,  // the bits of a tile's 32 channels are a word of the gate
};

Mapping mapping_of(const BlockMap& map, const CodecMap& codec_map) {
  const bool words =
      map.channel_stride == 1 &&
      (map.channels | map.image_stride | map.row_stride | map.column_stride) % kTileUnits == 0;
  switch (codec_map.activation) {
    case Activation::Silu:
      return Mapping::Silu;
    case Activation::Relu:
      return words ? Mapping::GateWords : Mapping::Gate;
    default:
      return codec_map.changes() ? Mapping::Norm : Mapping::None;
  }
}

/// A lane's bits of a chunk lie in shared memory, where they can be indexed: each lane reads what
/// it wrote itself. Two words more, since the next one is read ahead.
using LaneRow = std::uint32_t[kTileUnits];
using LaneBits = LaneRow[kMaxQuads + 2];

/// A lane's bits on their way to shared memory, of most plans all.
class LoadedBits {
 public:
  __device__ LoadedBits(const std::uint8_t* codes, std::int32_t chunk_bits, std::int32_t lane)
      : words_(reinterpret_cast<const std::uint32_t*>(codes) + lane),
        whole_(static_cast<std::uint32_t>(chunk_bits) / 32) {
    const std::uint32_t left = static_cast<std::uint32_t>(chunk_bits) % 32;
#pragma unroll
    for (unsigned i = 0; i < kFirst; ++i)
      if (i < whole_) first_[i] = words_[i * kTileUnits];
    const std::uint8_t* behind = codes + whole_ * static_cast<unsigned>(sizeof(LaneRow));
    if (left >= 16) rest_ = reinterpret_cast<const std::uint16_t*>(behind)[lane];
    if (left % 16 != 0)
      rest_ |= std::uint32_t{behind[(left >= 16 ? kTileUnits * 2 : 0) + lane]} << left / 16 * 16;
  }

  __device__ void store(std::int32_t lane, LaneBits& bits) const {
#pragma unroll
    for (unsigned i = 0; i < kFirst; ++i) bits[i][lane] = first_[i];  // some of them nothing yet
#pragma unroll 1
    for (unsigned i = kFirst; i < whole_; ++i) bits[i][lane] = words_[i * kTileUnits];
    bits[whole_][lane] = rest_;
  }

 private:
  static constexpr unsigned kFirst = 6;
  const std::uint32_t* words_;
  std::uint32_t whole_, first_[kFirst], rest_ = 0;
};

/// A chunk's coefficients, from its codes; `width` is over the transform's gain. `exponent` is
/// kOffsetExponent.
template <int block>
__device__ __forceinline__ void decode_chunk(const DecodeWork& work, const LaneBits& bits,
                                             const float (&width)[kFrequencyBands],
                                             const OffsetWords& first, std::int32_t lane,
                                             std::uint32_t exponent, ChunkFloats<block>& x) {
  const DecodeTable& table = work.table;
  const char* own = reinterpret_cast<const char*>(&bits[0][lane]);
  OffsetWords random = first;
  for_constants<quads_of_chunk(block)>([&](auto quad) {
    constexpr int left = codes_of_chunk(block) - 4 * quad, count = left < 4 ? left : 4;
    if (quad > 0 && quad % 4 == 0 && work.offsets.random) random = chunk_offsets(first, quad / 4);
    const auto* words = reinterpret_cast<const std::uint32_t*>(own + work.places[quad].bytes);
    const std::uint32_t word =
        __funnelshift_r(words[0], words[kTileUnits], work.places[quad].shift);
    std::uint32_t codes = __funnelshift_r(word, word, kFirstTurn);
    for_constants<count>([&](auto i) {
      constexpr int code = 4 * quad + i, place = code % kOffsetsOfCall;
      using Coded = CodedCoefficient<block, code>;
      const QuadDecoding& decoding = quad == 0 && block != 4 ? table.first[i] : table.quads[quad];
      const float step = width[Coded::band] * decoding.inverse_levels, bias = decoding.bias * step;
      x[Coded::number] =
          decoded(codes & decoding.mask, offset_bits(random.words[place / 2], place % 2, exponent),
                  step, bias);
      codes = __funnelshift_r(codes, codes, decoding.bits);
    });
  });
}

/// Zero in place of the elements of a block that the gate has no bit for.
template <int block, int first>
__device__ __forceinline__ void gate_block(const BlockGeometry& geometry, const LaneBlock& place,
                                           const std::uint32_t* gate, ChunkFloats<block>& x) {
  // Elements that the map lacks have no bits; they are not written, and those of others will do.
  const BlockSteps<false> steps = {geometry.row_stride, geometry.column_stride, place.rows - 1,
                                   place.columns - 1};
  std::uint32_t columns[block];
#pragma unroll
  for (int c = 0; c < block; ++c) columns[c] = steps.column(c);
  const int shift = geometry.element_bytes == 4 ? 2 : 1;
#pragma unroll
  for (int r = 0; r < block; ++r) {
    const std::int64_t row = (place.offset + steps.row(r)) >> shift;
#pragma unroll
    for (int c = 0; c < block; ++c)
      if (!gate_opens(gate, row + columns[c])) x[first + r * block + c] = 0.0f;
  }
}

/// Words of the gate for the elements of a warp's chunk, whose lanes each have a bit of them.
using GateWords = std::uint32_t[kMaxCodes];

/// Begins to copy a word to shared memory; wait_for_words waits for all of the thread's.
__device__ __forceinline__ void copy_word(std::uint32_t* to, const std::uint32_t* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
#else
  *to = *from;
#endif
}

__device__ __forceinline__ void wait_for_words() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Begins to fetch them: every lane two, for all.
template <int block>
__device__ __forceinline__ void fetch_gate(const BlockGeometry& geometry, std::int32_t unit,
                                           std::int32_t chunk, const std::uint32_t* gate,
                                           GateWords& words) {
  constexpr int size = block * block, blocks = blocks_of_chunk(block);
  const int shift = geometry.element_bytes == 4 ? 2 : 1;
  LaneBlock place = locate_block<block>(geometry, unit, chunk * blocks);
  for_constants<2>([&](auto half) {
    const int i = static_cast<int>(threadIdx.x) + half * kTileUnits;
    const int element = min(i, codes_of_chunk(block) - 1), in_block = element % size;
    if constexpr (blocks > 1)
      place = locate_block<block>(geometry, unit, chunk * blocks + element / size);
    const BlockSteps<false> steps = {geometry.row_stride, geometry.column_stride, place.rows - 1,
                                     place.columns - 1};
    const std::int64_t row = (place.offset + steps.row(in_block / block)) >> shift;
    copy_word(&words[i], gate + ((row + steps.column(in_block % block)) >> 5));
  });
}

/// Zero in place of the elements of a chunk that the fetched words have no bit for. All lanes of a
/// warp come here.
template <int block>
__device__ __forceinline__ void gate_chunk(const GateWords& words, ChunkFloats<block>& x) {
  wait_for_words();
  __syncwarp();
  const std::uint32_t own = 1u << threadIdx.x;
  for_constants<(codes_of_chunk(block) + 3) / 4>([&](auto four) {
    const uint4 read = reinterpret_cast<const uint4*>(words)[four];
    const std::uint32_t of_four[] = {read.x, read.y, read.z, read.w};
#pragma unroll
    for (int i = 0; i < 4 && 4 * four + i < codes_of_chunk(block); ++i)
      if ((of_four[i] & own) == 0) x[4 * four + i] = 0.0f;
  });
}

/// A lane's elements are of one channel.
template <int block, Mapping mapping>
__device__ __forceinline__ void map_chunk(const DecodeWork& work, std::int32_t unit,
                                          std::int32_t chunk, const GateWords& words,
                                          ChunkFloats<block>& x) {
  constexpr int blocks = blocks_of_chunk(block);
  const BlockGeometry& geometry = work.geometry;
  const std::int32_t channel = geometry.channels(min(unit, geometry.units - 1)).remainder;
  const NormCoefficients norm = codec_norm(work.map, channel);
  if constexpr (mapping == Mapping::Silu) {
    const NormedSilu silu(norm);
    // No unit is negative; but without branches ptxas would begin with the powers of all elements,
    // for which there are no registers.
    for_constants<(codes_of_chunk(block) + 7) / 8>([&](auto eight) {
      if (unit == -1 - eight) return;
      for_constants<8>([&](auto i) {
        if constexpr (8 * eight + i < codes_of_chunk(block))
          x[8 * eight + i] = silu(x[8 * eight + i]);
      });
    });
  } else {
    for_constants<codes_of_chunk(block)>(
        [&](auto i) { x[i] = codec_mapped(x[i], norm, Activation::None); });
  }
  if constexpr (mapping == Mapping::GateWords) gate_chunk<block>(words, x);
  if (mapping != Mapping::Gate && work.map.scales == nullptr) return;
  for_constants<blocks>([&](auto number) {
    constexpr int first = number * block * block;
    const LaneBlock place = locate_block<block>(geometry, unit, chunk * blocks + number);
    if constexpr (mapping == Mapping::Gate)
      gate_block<block, first>(geometry, place, work.map.gate, x);
    if (work.map.scales == nullptr) return;
    const float scale = work.map.scales[std::int64_t{place.image} * work.channels + channel];
    for_constants<block * block>([&](auto i) { x[first + i] *= scale; });
  });
}

template <int block, Access access, Mapping mapping>
__global__ void __launch_bounds__(kTileThreads, 3)
    decode_kernel(const std::uint8_t* codes, char* values,
                  const __grid_constant__ DecodeWork work) {
  constexpr bool staged = access == Access::Rows;
  constexpr int channel_bytes = access == Access::Channels ? sizeof(ChannelStage<block>) : 0;
  constexpr int bits_bytes = sizeof(LaneBits);
  constexpr int warp_bytes = channel_bytes > bits_bytes ? channel_bytes : bits_bytes;
  constexpr int warps_bytes = warp_bytes * kUnitChunks;
  constexpr int bytes =
      staged && kStageBytes < block >> warps_bytes ? kStageBytes<block> : warps_bytes;
  __shared__ alignas(16) char memory[bytes];
  __shared__ alignas(16) GateWords gate_words[mapping == Mapping::GateWords ? kUnitChunks : 1];
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto chunk = static_cast<std::int32_t>(threadIdx.y);
  const auto tile = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t unit = tile * kTileUnits + lane;
  const bool has_chunk = chunk < chunks_of_tile(work.geometry, tile);
  char* own_memory = memory + chunk * warp_bytes;
  LaneBits& bits = *reinterpret_cast<LaneBits*>(own_memory);
  if (!staged && !has_chunk) return;
  ChunkFloats<block> x;
  if (has_chunk) {
    GateWords& words = gate_words[mapping == Mapping::GateWords ? chunk : 0];
    if constexpr (mapping == Mapping::GateWords)
      fetch_gate<block>(work.geometry, unit, chunk, work.map.gate, words);
    const std::uint64_t header = reinterpret_cast<const std::uint64_t*>(codes)[unit];
    const LoadedBits loaded(codes + chunk_offset(work.geometry, tile, chunk),
                            work.table.words.chunk_bits, lane);
    const OffsetWords first =  // while they are loaded
        first_offsets(work.offsets, work.offsets.draws.high(), unit, chunk);
    const UnitRanges ranges = ranges_of(header);
    loaded.store(lane, bits);
    constexpr float gain = 1.0f / (gain_of(block) * gain_of(block));
    float width[kFrequencyBands];
#pragma unroll
    for (int band = 0; band < kFrequencyBands; ++band)
      width[band] = band_range(ranges, band) * kWidth * gain;
    const float middle = middle_of(ranges) * gain;
    // No unit is negative: a zero that nvcc does not know, to keep the constant in a register.
    const std::uint32_t exponent = kOffsetExponent | static_cast<std::uint32_t>(unit) >> 31;
    decode_chunk<block>(work, bits, width, first, lane, exponent, x);
#pragma unroll
    for (int first = 0; first < codes_of_chunk(block); first += block * block) x[first] += middle;
    transform_chunk<block, false>(x);
    if constexpr (mapping != Mapping::None) map_chunk<block, mapping>(work, unit, chunk, words, x);
  }
  const auto store = [&](auto stored) {
    if constexpr (staged)
      store_staged<block>(stored, work.geometry, values, tile, has_chunk, x, memory);
    else if constexpr (access == Access::Channels && sizeof(stored.word(0.0f)) == 2)
      store_channels<block>(stored, work.geometry, values, unit, chunk, x,
                            *reinterpret_cast<ChannelStage<block>*>(own_memory));
  };
  if constexpr (access == Access::Elements)
    store_chunk<block>(work.geometry, values, unit, chunk, x);
  else
    with_stored_type(work.geometry.type, store);
}

template <int block, Access access>
auto kernel_for(Mapping mapping) {
  switch (mapping) {
    case Mapping::None:
      return decode_kernel<block, access, Mapping::None>;
    case Mapping::Norm:
      return decode_kernel<block, access, Mapping::Norm>;
    case Mapping::Silu:
      return decode_kernel<block, access, Mapping::Silu>;
    case Mapping::GateWords:  // of dense channels
      if constexpr (access != Access::Rows) return decode_kernel<block, access, Mapping::GateWords>;
      [[fallthrough]];
    default:
      return decode_kernel<block, access, Mapping::Gate>;
  }
}

template <int block>
void launch(const FrequencyCoding& coding, const DecodeWork& work, std::int64_t tiles,
            const std::uint8_t* codes, char* values, cudaStream_t stream) {
  const dim3 threads(kTileUnits, kUnitChunks);
  const Mapping mapping = mapping_of(coding.map, work.map);
  const Access access = work.geometry.access;
  const auto kernel = access == Access::Rows       ? kernel_for<block, Access::Rows>(mapping)
                      : access == Access::Channels ? kernel_for<block, Access::Channels>(mapping)
                                                   : kernel_for<block, Access::Elements>(mapping);
  kernel<<<static_cast<unsigned>(tiles), threads, 0, stream>>>(codes, values, work);
}

}  // namespace

void decode_frequency(const FrequencyCoding& coding, const std::uint8_t* codes, void* values,
                      const CodecMap& map, cudaStream_t stream) {
  const FrequencyLayout layout = frequency_layout(coding.map, coding.block, coding.bits);
  if (layout.tiles == 0) return;
  ensure(map.gate == nullptr || coding.map.offset == 0, "a gate's bits begin with the map");
  const DecodeTable table = decode_table(coding.block, coding.bits);
  DecodeWork work = {.geometry = geometry_of(coding, layout, values),
                     .table = table,
                     .places = {},
                     .offsets = {DitherDraws(coding.key), coding.rounding == Rounding::Dither},
                     .map = map,
                     .channels = coding.map.channels};
  for (int quad = 0; quad < kMaxQuads; ++quad) {
    const std::uint32_t before = table.words.filling & ((1u << quad) - 1);
    work.places[quad] = {
        .bytes = static_cast<std::uint32_t>(std::popcount(before) * sizeof(LaneRow)),
        .shift = table.positions[quad]};
  }
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
