#include <string>

#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/frequency/frequency_codec_blocks.cuh"
#include "triaccel/kernels/compression/frequency/predicted_codec.h"
#include "triaccel/kernels/compression/frequency/predicted_codec_math.h"

// A tile is a block of threads, one for each of its blocks. Coefficients lie in shared memory,
// where those that are predicted find the others'.
namespace triaccel::kernels::cuda {
namespace {

constexpr int kWarps = kPredictedTile / 32;

struct PredictedWork {
  BlockGeometry geometry;
  PredictedTables tables;
  DitherDraws draws;
  PredictedLayout::Tile full, last;
  std::int32_t full_tiles, channels;
};

PredictedWork work_of(const PredictedCoding& coding, const PredictedLayout& layout,
                      const void* values) {
  const FrequencyCoding plain = {
      .map = coding.map, .type = coding.type, .block = coding.block, .bits = coding.bits};
  const FrequencyLayout blocks = frequency_layout(coding.map, coding.block, coding.bits);
  ensure(layout.tiles() < std::int64_t{1} << 31, "a map's tiles fit the kernels");
  return {.geometry = geometry_of(plain, blocks, values),
          .tables = predicted_tables(coding.block, coding.bits),
          .draws = DitherDraws(coding.key),
          .full = layout.full,
          .last = layout.last,
          .full_tiles = static_cast<std::int32_t>(layout.tiles() - layout.channels),
          .channels = static_cast<std::int32_t>(layout.channels)};
}

/// What a tile has in addition to its coefficients and words.
struct TileMemory {
  UnitScale scales[kMaxUnits];
  alignas(16) std::uint32_t keys[kPredictedTile];
  std::int32_t of_kind[kPredictedKinds][kWarps];  // blocks
};

/// One thread's block.
template <int block>
struct TileBlock {
  static constexpr int kUnitBlocks = kUnitChunks * blocks_of_chunk(block);
  const PredictedLayout::Tile& sizes;
  std::int64_t tile_offset;  // bytes
  std::int32_t tile, at;
  bool exists;

  __device__ explicit TileBlock(const PredictedWork& work)
      : sizes(static_cast<std::int32_t>(blockIdx.x) < work.full_tiles ? work.full : work.last),
        tile(static_cast<std::int32_t>(blockIdx.x)),
        at(static_cast<std::int32_t>(threadIdx.x)),
        exists(at < sizes.blocks) {
    const std::int32_t full = min(tile, work.full_tiles);
    tile_offset = full * work.full.bytes() + (tile - full) * work.last.bytes();
  }

  __device__ LaneBlock place(const PredictedWork& work) const {
    const FastDivide::Result group = work.geometry.channels(tile);  // remainder: the channel
    const std::int32_t units = group.quotient * (kPredictedTile / kUnitBlocks) + at / kUnitBlocks;
    return locate_block<block>(work.geometry, units * work.channels + group.remainder,
                               at % kUnitBlocks);
  }
  /// Coefficients, and behind them the words of the tile.
  __device__ static std::uint32_t* words_behind(float* columns) {
    return reinterpret_cast<std::uint32_t*>(columns + coefficients_of(block) * kPredictedTile);
  }
};

/// Bits of the tile's codes before those of this thread's block. All threads come here.
__device__ std::int32_t bits_before(const PredictedTables& tables, TileMemory& memory, bool exists,
                                    std::int32_t kind, int level) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  std::uint32_t same[kPredictedKinds];
#pragma unroll
  for (int k = 0; k < kPredictedKinds; ++k) {
    same[k] = __ballot_sync(~0u, exists && kind == k);
    if (lane == 0) memory.of_kind[k][warp] = __popc(same[k]);
  }
  __syncthreads();
  std::int32_t sum = 0;
#pragma unroll
  for (int k = 0; k < kPredictedKinds; ++k) {
    std::int32_t before = __popc(same[k] & ((1u << lane) - 1));
    for (int w = 0; w < warp; ++w) before += memory.of_kind[k][w];
    sum += before * tables.block_bits[level - kFinestLevel][k];
  }
  return sum;
}

/// A block's elements as coefficients, in its column; returns the header of its unit. All lanes of
/// a warp come here.
template <int block>
__device__ __forceinline__ std::uint64_t load_coefficients(const PredictedWork& work,
                                                           const TileBlock<block>& own,
                                                           const char* values, float* columns) {
  ChunkFloats<block> x = {};
  float extremes[kExtremes];
#pragma unroll
  for (float& extreme : extremes) extreme = -INFINITY;
  if (own.exists) {
    load_block<block, 0>(work.geometry, values, own.place(work), x);
    for_constants<block * block>([&](auto i) {
      const auto half = static_cast<std::uint16_t>(bits_of_float(x[i]));
      if (work.geometry.type == FloatType::Bf16) x[i] = bf16_to_float(half);
      if (work.geometry.type == FloatType::F16) x[i] = f16_to_float(half);
    });
    transform_chunk<block, true>(x);
    for_constants<block * block>([&](auto place) {
      constexpr CoefficientPlace at = coefficient_at(block, place);
      constexpr int number = at.row * block + at.column;
      columns[place * kPredictedTile + own.at] = x[number];
      add_extreme(band_of(block, at.row, at.column), x[number], extremes);
    });
  }
#pragma unroll
  for (int lanes = 1; lanes < TileBlock<block>::kUnitBlocks; lanes *= 2)
#pragma unroll
    for (float& extreme : extremes) extreme = larger(extreme, __shfl_xor_sync(~0u, extreme, lanes));
  return unit_header(extremes);
}

/// The first block of the tile with the same key; the own one where there is none before it.
__device__ std::int32_t first_alike(const TileMemory& memory, std::int32_t at) {
  const std::uint32_t key = memory.keys[at];
  std::int32_t found = at;
  for (std::int32_t j = 0; j < at && found == at; j += 4) {
    const uint4 keys = *reinterpret_cast<const uint4*>(&memory.keys[j]);
    if (keys.w == key) found = min(found, j + 3);
    if (keys.z == key) found = min(found, j + 2);
    if (keys.y == key) found = min(found, j + 1);
    if (keys.x == key) found = min(found, j);
  }
  return found;
}

__device__ void add_counts(PredictionCounts* counts, std::int32_t all, std::int32_t candidates,
                           std::int32_t predicted, std::int32_t saved_bits) {
  const auto add = [](std::int64_t& count, std::int32_t more) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&count), static_cast<unsigned long long>(more));
  };
  add(counts->blocks, all);
  add(counts->candidates, candidates);
  add(counts->predicted, predicted);
  add(counts->saved_bits, saved_bits);
}

struct ChosenBlock {
  Prediction prediction;
  int level;
};

/// How a thread's block is predicted, and the tile's level. All threads come here.
__device__ ChosenBlock chosen_block(const PredictedTables& tables, const TileMemory& memory,
                                    const float* columns, const PredictedLayout::Tile& sizes,
                                    std::int32_t at, bool exists, PredictionCounts* counts) {
  ChosenBlock chosen = {};
  Prediction& prediction = chosen.prediction;
  prediction.from = exists ? first_alike(memory, at) : at;
  const bool candidate = exists && prediction.from < at;
  const UnitScale& scale = memory.scales[at / tables.unit_blocks];
  const UnitScale& theirs = memory.scales[prediction.from / tables.unit_blocks];
  const float *x = columns + at, *r = columns + prediction.from;
  if (candidate) prediction.gain = best_gain(tables, x, r, scale);
  const std::int32_t candidates = __syncthreads_count(candidate);
  for (int range = kPlannedOrFiner; range <= kCoarser; ++range) {
    prediction.kind =
        prediction.gain == 0 ? 0 : best_kind(tables, range, x, r, scale, theirs, prediction.gain);
    std::int32_t blocks[kPredictedKinds] = {sizes.blocks};
#pragma unroll
    for (int kind = 1; kind < kPredictedKinds; ++kind) {
      blocks[kind] = __syncthreads_count(prediction.kind == kind);
      blocks[0] -= blocks[kind];
    }
    if (range == kPlannedOrFiner && at == 0 && counts != nullptr)
      add_counts(counts, sizes.blocks, candidates, sizes.blocks - blocks[0],
                 bits_saved(tables, blocks));
    chosen.level = fitting_level(tables, range, blocks, sizes.room);
    if (chosen.level <= last_level(range)) break;
  }
  return chosen;
}

template <int block>
__global__ void __launch_bounds__(kPredictedTile, 2)
    encode_kernel(const char* values, std::uint8_t* codes, PredictionCounts* counts,
                  std::int32_t* not_finite, const __grid_constant__ PredictedWork work) {
  extern __shared__ float columns[];
  __shared__ TileMemory memory;
  const TileBlock<block> own(work);
  std::uint32_t* words = own.words_behind(columns);
  std::uint32_t *kinds = words + 1, *bits = kinds + own.sizes.kind_words;
  auto* headers = reinterpret_cast<std::uint64_t*>(codes + own.tile_offset);

  const std::uint64_t header = load_coefficients<block>(work, own, values, columns);
  if (own.exists && own.at % own.kUnitBlocks == 0) {
    const std::int32_t unit = own.at / own.kUnitBlocks;
    headers[unit] = header;
    memory.scales[unit] = unit_scale(header);
    if (memory.scales[unit].finite == 0 && not_finite != nullptr) atomicAdd(not_finite, 1);
  }
  for (int i = own.at; i < own.sizes.words(); i += kPredictedTile) words[i] = 0;
  __syncthreads();
  const UnitScale& scale = memory.scales[own.at / own.kUnitBlocks];
  memory.keys[own.at] = own.exists && scale.finite != 0
                            ? signature(work.tables, columns + own.at, scale)
                            : no_signature(own.at);
  __syncthreads();
  const ChosenBlock chosen =
      chosen_block(work.tables, memory, columns, own.sizes, own.at, own.exists, counts);

  const std::int32_t kind = chosen.prediction.kind;
  const std::int32_t begin = bits_before(work.tables, memory, own.exists, kind, chosen.level);
  if (own.at == 0) words[0] = static_cast<std::uint32_t>(chosen.level - kFinestLevel);
  if (kind > 0) atomicOr(&kinds[own.at / 16], static_cast<std::uint32_t>(kind) << own.at % 16 * 2);
  const CodedBlock coded = {chosen.prediction, chosen.level, call_of(own.tile, own.at)};
  const auto write = [&] {
    BitWriter writer(begin, [&](int word, std::uint32_t joined) { atomicOr(&bits[word], joined); });
    write_block(work.tables, work.draws, work.draws.high(), coded, scale, columns + own.at,
                columns + coded.prediction.from, writer);
  };
  // Blocks that are not predicted come first: the others need what they decode to.
  if (own.exists && kind == 0) write();
  __syncthreads();
  if (own.exists && kind > 0) write();
  __syncthreads();
  auto* out = reinterpret_cast<std::uint32_t*>(headers + own.sizes.units);
  for (int i = own.at; i < own.sizes.words(); i += kPredictedTile) out[i] = words[i];
}

/// A block's column as elements.
template <int block>
__device__ __forceinline__ void store_column(const PredictedWork& work, const TileBlock<block>& own,
                                             const float* columns, char* values) {
  constexpr float gain = 1.0f / (gain_of(block) * gain_of(block));
  ChunkFloats<block> x = {};
  for_constants<block * block>([&](auto place) {
    constexpr CoefficientPlace at = coefficient_at(block, place);
    x[at.row * block + at.column] = columns[place * kPredictedTile + own.at] * gain;
  });
  transform_chunk<block, false>(x);
  const LaneBlock place = own.place(work);
  with_steps<block>(work.geometry, place, [&](const auto& steps) {
    char* to = values + place.offset;
    with_stored_type(work.geometry.type, [&]<typename Stored>(Stored) {
      if constexpr (sizeof(typename Stored::Word) == 4) {
        store_elements<block, 0, std::uint32_t>(to, steps, x);
      } else {
        for_constants<block * block>(
            [&](auto i) { x[i] = float_from_bits(Stored::word(storable<Stored>(x[i]))); });
        store_elements<block, 0, std::uint16_t>(to, steps, x);
      }
    });
  });
}

template <int block>
__global__ void __launch_bounds__(kPredictedTile, 2)
    decode_kernel(const std::uint8_t* codes, char* values,
                  const __grid_constant__ PredictedWork work) {
  extern __shared__ float columns[];
  __shared__ TileMemory memory;
  const TileBlock<block> own(work);
  std::uint32_t* words = own.words_behind(columns);
  const std::uint32_t *kinds = words + 1, *bits = kinds + own.sizes.kind_words;
  const auto* headers = reinterpret_cast<const std::uint64_t*>(codes + own.tile_offset);
  const auto* in = reinterpret_cast<const std::uint32_t*>(headers + own.sizes.units);
  for (int i = own.at; i < own.sizes.words(); i += kPredictedTile) words[i] = in[i];
  if (own.at < own.sizes.units) memory.scales[own.at] = unit_scale(headers[own.at]);
  __syncthreads();
  const int level = static_cast<int>(words[0]) + kFinestLevel;
  CodedBlock coded = {.prediction = {.kind = own.exists ? kind_at(kinds, own.at) : 0},
                      .level = level,
                      .call = call_of(own.tile, own.at)};
  const std::int32_t kind = coded.prediction.kind;
  BitReader reader(bits, bits_before(work.tables, memory, own.exists, kind, level));
  const auto read = [&] {
    read_prediction(reader, coded.prediction);
    read_block(work.tables, work.draws, work.draws.high(), coded,
               memory.scales[own.at / own.kUnitBlocks], reader, columns + own.at,
               columns + coded.prediction.from);
  };
  if (own.exists && kind == 0) read();
  __syncthreads();
  if (!own.exists) return;
  if (kind > 0) read();
  store_column<block>(work, own, columns, values);
}

/// Room for coefficients and words of a tile.
template <typename Kernel>
int shared_bytes(std::string_view who, Kernel kernel, const PredictedCoding& coding,
                 const PredictedLayout& layout) {
  const int words = layout.channel_tiles > 1 ? layout.full.words() : layout.last.words();
  const int bytes = 4 * (coefficients_of(coding.block) * kPredictedTile + words);
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaSuccess) return bytes;
  cudaGetLastError();
  throw UsageError(text("[", who, "] this GPU has no ", bytes,
                        " bytes of shared memory for a tile of blocks; leave block prediction off "
                        "(--activation-prediction off)"));
}

/// launch(constant block) for the coding's blocks.
template <typename Launch>
void with_block(int block, Launch launch) {
  if (block == 8)
    launch(std::integral_constant<int, 8>{});
  else if (block == 7)
    launch(std::integral_constant<int, 7>{});
  else
    launch(std::integral_constant<int, 4>{});
}

std::int64_t offset_bytes(const PredictedCoding& coding) {
  return coding.map.offset * (coding.type == FloatType::F32 ? 4 : 2);
}

}  // namespace

void encode_predicted(const PredictedCoding& coding, const void* values, std::uint8_t* codes,
                      PredictionCounts* counts, std::int32_t* not_finite, cudaStream_t stream) {
  constexpr std::string_view who = "encode_predicted";
  const PredictedLayout layout =
      predicted_layout(coding.map, coding.block, coding.bits, coding.saved);
  if (layout.tiles() == 0) return;
  const PredictedWork work = work_of(coding, layout, values);
  const char* first = static_cast<const char*>(values) + offset_bytes(coding);
  with_block(coding.block, [&](auto block) {
    const auto kernel = encode_kernel<block>;
    const int shared = shared_bytes(who, kernel, coding, layout);
    kernel<<<static_cast<unsigned>(layout.tiles()), kPredictedTile, shared, stream>>>(
        first, codes, counts, not_finite, work);
  });
  check_launch(who);
}

void decode_predicted(const PredictedCoding& coding, const std::uint8_t* codes, void* values,
                      cudaStream_t stream) {
  constexpr std::string_view who = "decode_predicted";
  const PredictedLayout layout =
      predicted_layout(coding.map, coding.block, coding.bits, coding.saved);
  if (layout.tiles() == 0) return;
  const PredictedWork work = work_of(coding, layout, values);
  char* first = static_cast<char*>(values) + offset_bytes(coding);
  with_block(coding.block, [&](auto block) {
    const auto kernel = decode_kernel<block>;
    const int shared = shared_bytes(who, kernel, coding, layout);
    kernel<<<static_cast<unsigned>(layout.tiles()), kPredictedTile, shared, stream>>>(codes, first,
                                                                                      work);
  });
  check_launch(who);
}

}  // namespace triaccel::kernels::cuda
