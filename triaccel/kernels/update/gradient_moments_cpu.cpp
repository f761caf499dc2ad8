#include "triaccel/kernels/common/chunk_loop_cpu.h"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/gradient_moments_math.h"
#include "triaccel/kernels/update/step_control.h"

namespace triaccel::kernels::cpu {
namespace {

constexpr int kLanes = 16;  // independent FP32 sums side by side: the width of the widest vectors
constexpr std::int64_t kBlock = std::int64_t{kLanes} * kElementsPerLane;

/// Arrays rather than an array of structs: the vectoriser turns each into one register.
struct Lanes {
  float sum[kLanes] = {};
  float sum_of_squares[kLanes] = {};
  float absolute_maximum[kLanes] = {};
  std::int32_t nonfinite[kLanes] = {};
  std::int32_t fp16_zeros[kLanes] = {};
  std::int32_t fp16_subnormals[kLanes] = {};
};

void add_lanes(ChunkMoments& chunk, const Lanes& lanes) {
  for (int i = 0; i < kLanes; ++i) {
    chunk.sum += double{lanes.sum[i]};
    chunk.sum_of_squares += double{lanes.sum_of_squares[i]};
    chunk.absolute_maximum = std::max(chunk.absolute_maximum, lanes.absolute_maximum[i]);
    chunk.nonfinite += lanes.nonfinite[i];
    chunk.fp16_zeros += lanes.fp16_zeros[i];
    chunk.fp16_subnormals += lanes.fp16_subnormals[i];
  }
}

template <typename Stored>
ChunkMoments moments_of(const typename Stored::Word* stored, std::int64_t count,
                        GradientScales scales) {
  ChunkMoments chunk;
  chunk.count = static_cast<std::int32_t>(count);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    Lanes lanes;
    const auto add = [&](int lane, std::int64_t i) {
      add_element(Stored::value(stored[i]), scales, lanes.sum[lane], lanes.sum_of_squares[lane],
                  lanes.absolute_maximum[lane], lanes.nonfinite[lane], lanes.fp16_zeros[lane],
                  lanes.fp16_subnormals[lane]);
    };
    const std::int64_t end = std::min(begin + kBlock, count);
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
    }
    for (int lane = 0; i < end; ++i, ++lane) add(lane, i);
    add_lanes(chunk, lanes);
  }
  return chunk;
}

}  // namespace

void clear_moments(MomentsScales scales, LayerMoments* layers, std::int64_t layer_count) {
  for (std::int64_t i = 0; i < layer_count; ++i) layers[i] = no_moments(scales, i);
}

void add_gradient_moments(std::span<const TensorEntry> tensors, MomentsScales scales,
                          MomentsScratch scratch, LayerMoments* layers) {
  ChunkMoments* chunks = scratch.chunks;
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t chunk) {
    const FloatType type = list.gradient_type[range.index];
    const std::int32_t layer = list.layer[range.index];
    with_stored_type(type, [&]<typename Stored>(Stored) {
      const auto* stored = static_cast<const typename Stored::Word*>(list.gradient[range.index]);
      chunks[chunk] = moments_of<Stored>(stored + range.begin, range.end - range.begin,
                                         gradient_scales(scales, layer, type));
    });
    chunks[chunk].layer = layer;
  });
  const std::int64_t total = chunk_count(tensors);
  for (std::int64_t i = 0; i < total; ++i) add_moments(layers[chunks[i].layer], chunks[i]);
}

void decide_step(StepControl* control, const LayerMoments* layers, std::int64_t layer_count,
                 StepControlOptions options) {
  StepTotals totals;
  for (std::int64_t i = 0; i < layer_count; ++i) add_layer(totals, layers[i], i);
  decide(*control, totals, options);
}

}  // namespace triaccel::kernels::cpu
