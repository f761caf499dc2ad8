#include "triaccel/kernels/restore_if_skipped.h"

#include "triaccel/kernels/cuda/chunk_loop.cuh"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    restore_kernel(const __grid_constant__ TensorList list, const StepControl* control) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  wait_for_previous_kernel();
  if (!control->skip) return;
  float* live = list.parameter[range.index];
  const float* saved = list.state1[range.index];
  for_each_element(
      range, aligned_for_vectors(live, saved),
      [&](std::int64_t i) { store4(live + i, load4(saved + i)); },
      [&](std::int64_t i) { live[i] = saved[i]; });
}

}  // namespace

void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control,
                        cudaStream_t stream) {
  launch_lists("restore_if_skipped", tensors, restore_kernel, stream, control);
}

}  // namespace triaccel::kernels::cuda
