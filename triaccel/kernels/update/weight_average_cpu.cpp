#include "triaccel/kernels/update/weight_average.h"

#include "triaccel/kernels/common/chunk_loop_cpu.h"

namespace triaccel::kernels::cpu {

void average_weights(std::span<const TensorEntry> tensors, const StepControl* control,
                     WeightAverageStep step) {
  if (control->skip) return;
  const float gain = average_gain(step, control->applied_steps);
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    const float* __restrict p = list.parameter[range.index];
    float* __restrict average = list.state1[range.index];
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) average_element(average[i], p[i], gain);
  });
}

void swap_weights(std::span<const TensorEntry> tensors) {
  for_each_chunk(tensors, [&](const TensorList& list, ChunkRange range, std::int64_t) {
    float* __restrict p = list.parameter[range.index];
    float* __restrict average = list.state1[range.index];
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const float kept = p[i];
      p[i] = average[i];
      average[i] = kept;
    }
  });
}

}  // namespace triaccel::kernels::cpu
