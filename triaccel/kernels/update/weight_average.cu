#include "triaccel/kernels/update/weight_average.h"

#include "triaccel/kernels/common/chunk_loop.cuh"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    average_kernel(const __grid_constant__ TensorList list, const StepControl* control,
                   WeightAverageStep step) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  wait_for_previous_kernel();
  if (control->skip) return;
  const float* p = list.parameter[range.index];
  float* average = list.state1[range.index];
  const float gain = average_gain(step, control->applied_steps);
  for_each_element(
      range, aligned_for_vectors(p, average),
      [&](std::int64_t i) {
        const float4 p4 = load4(p + i);
        float4 a4 = load4(average + i);
        average_element(a4.x, p4.x, gain);
        average_element(a4.y, p4.y, gain);
        average_element(a4.z, p4.z, gain);
        average_element(a4.w, p4.w, gain);
        store4(average + i, a4);
      },
      [&](std::int64_t i) { average_element(average[i], p[i], gain); });
}

__global__ void __launch_bounds__(kThreads) swap_kernel(const __grid_constant__ TensorList list) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  wait_for_previous_kernel();
  float* p = list.parameter[range.index];
  float* average = list.state1[range.index];
  for_each_element(
      range, aligned_for_vectors(p, average),
      [&](std::int64_t i) {
        const float4 kept = load4(p + i);
        store4(p + i, load4(average + i));
        store4(average + i, kept);
      },
      [&](std::int64_t i) {
        const float kept = p[i];
        p[i] = average[i];
        average[i] = kept;
      });
}

}  // namespace

void average_weights(std::span<const TensorEntry> tensors, const StepControl* control,
                     WeightAverageStep step, cudaStream_t stream) {
  launch_lists("average_weights", tensors, average_kernel, stream, control, step);
}

void swap_weights(std::span<const TensorEntry> tensors, cudaStream_t stream) {
  launch_lists("swap_weights", tensors, swap_kernel, stream);
}

}  // namespace triaccel::kernels::cuda
