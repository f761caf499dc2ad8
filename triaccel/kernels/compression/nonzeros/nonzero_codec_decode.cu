#include "triaccel/kernels/common/launch.cuh"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec.cuh"

namespace triaccel::kernels::cuda {
namespace {

struct DecodeMemory {
  ValueGrid grids[2][kNonZeroGroups];
  alignas(16) std::uint32_t quads[kNonZeroQuads];
  alignas(16)
      std::uint32_t record[nonzero_record_words(kMaxNonZeroEighths) + 4];  // read one word beyond
};

/// The codes of the quads of this lane's word, each quad's from its lowest bit on.
__device__ void read_quads(const std::uint32_t* room, const WordCodes& codes,
                           std::uint32_t (&quads)[kWordQuads]) {
  std::uint32_t place = codes.place;
#pragma unroll
  for (int quad = 0; quad < kWordQuads; ++quad) {
    const std::uint32_t* from = room + place / 32;
    quads[quad] = __funnelshift_r(from[0], from[1], place);
    place += codes.length(quad);
  }
}

/// Where the mask has the bit, moves the code that was read out of `joined`, else clears its value.
/// Said outright: the compiler makes three instructions of the test.
__device__ void take_code(std::uint32_t mask, std::uint32_t bit, std::uint32_t width,
                          std::uint32_t& joined, float& value) {
#ifdef __CUDA_ARCH__
  asm("{ .reg .pred p; .reg .b32 t; and.b32 t, %2, %3; setp.ne.u32 p, t, 0;"
      "  @p shr.u32 %0, %0, %4; selp.f32 %1, %1, 0f00000000, p; }"
      : "+r"(joined), "+f"(value)
      : "r"(mask), "r"(bit), "r"(width));
#else
  if ((mask & bit) != 0)
    joined >>= width;
  else
    value = 0.0f;
#endif
}

template <typename Stored>
__global__ void __launch_bounds__(kNonZeroThreads)
    decode_kernel(const std::uint32_t* mask, const uint4* records, void* values,
                  const __grid_constant__ NonZeroWork work) {
  __shared__ DecodeMemory memories[kNonZeroBlock];
  const NonZeroPlace at = nonzero_place();
  if (at.tile >= work.tiles) return;
  DecodeMemory& memory = memories[at.warp];
  const uint4* from = records + at.tile * (1 + work.eighths);
#pragma unroll 1
  for (int i = at.lane; i <= work.eighths; i += 32)
    reinterpret_cast<uint4*>(memory.record)[i] = from[i];
  const std::uint32_t word = at.has_word(work) ? mask[at.tile * kNonZeroWords + at.lane] : 0u;
  const std::uint32_t bits =
      across_lanes<kQuad>(__shfl_sync(kAllLanes, word, word_of_lane<kQuad>()));
  const WordCodes codes = word_codes(word, work.eighths, at.lane);
  __syncwarp();

  const int group = at.lane % kNonZeroGroups, wide = at.lane / kNonZeroGroups;
  if (wide < 2)
    memory.grids[wide][group] =
        value_grid(reinterpret_cast<const std::uint16_t*>(memory.record)[group],
                   codes.narrow + wide, work.rounding);
  std::uint32_t quads[kWordQuads];
  read_quads(memory.record + 4, codes, quads);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    reinterpret_cast<uint4*>(memory.quads)[at.lane * 2 + i] =
        make_uint4(quads[i * 4], quads[i * 4 + 1], quads[i * 4 + 2], quads[i * 4 + 3]);
  __syncwarp();

  const std::uint64_t high = work.draws.high();
  const bool whole = at.is_whole(work);
  auto* to = static_cast<typename Stored::Word*>(values) + at.element(0);
#pragma unroll
  for (int four = 0; four < kNonZeroGroups / kCallGroups; ++four) {
    OffsetWords random = {};
    if (work.rounding == Rounding::Dither) {
      random = offset_words(work.draws.words(dither_call(at.tile, four, at.lane), high));
#pragma unroll
      for (std::uint32_t& word : random.words) word = ~word;
    }
#pragma unroll
    for (int group = 0; group < kCallGroups; ++group) {
      const int row = four * kCallGroups + group;
      const ValueGrid grid = memory.grids[codes.is_wide(row, at.lane)][row];
      std::uint32_t joined = memory.quads[row * 32 + at.lane];
      float out[kQuad];
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        const std::uint32_t place = __byte_perm(random.words[group * 2 + i / 2], joined & grid.top,
                                                i % 2 == 0 ? 0x5410 : 0x5432);
        out[i] = value_of(place, grid);
        take_code(bits, 1u << (row * kQuad + i), grid.width, joined, out[i]);
      }
      if (whole) {
        store_quad<Stored>(to + row * kNonZeroGroup, out);
      } else {
#pragma unroll
        for (int i = 0; i < kQuad; ++i)
          if (at.element(row) + i < work.count) to[row * kNonZeroGroup + i] = Stored::word(out[i]);
      }
    }
  }
}

}  // namespace

void decode_nonzeros(const NonZeroCoding& coding, const std::uint32_t* mask, const void* records,
                     void* values, cudaStream_t stream) {
  if (coding.count == 0) return;
  const NonZeroWork work = nonzero_work(coding, values);
  with_stored_type(coding.type, [&]<typename Stored>(Stored) {
    decode_kernel<Stored><<<blocks_for(work.tiles, kNonZeroBlock), kNonZeroThreads, 0, stream>>>(
        mask, static_cast<const uint4*>(records), values, work);
  });
  check_launch("decode_nonzeros");
}

}  // namespace triaccel::kernels::cuda
