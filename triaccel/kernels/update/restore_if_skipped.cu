#include "triaccel/kernels/update/restore_if_skipped.h"

#include "triaccel/kernels/common/chunk_loop.cuh"

namespace triaccel::kernels::cuda {
namespace {

__device__ void copy_chunk(ChunkRange range, const float* from, float* to) {
  for_each_element(
      range, aligned_for_vectors(from, to),
      [&](std::int64_t i) { store4(to + i, load4(from + i)); },
      [&](std::int64_t i) { to[i] = from[i]; });
}

__global__ void __launch_bounds__(kThreads) save_kernel(const __grid_constant__ TensorList list) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  wait_for_previous_kernel();
  copy_chunk(range, list.parameter[range.index], list.state1[range.index]);
}

/// Whatever was decided where there is no control.
__global__ void __launch_bounds__(kThreads)
    restore_kernel(const __grid_constant__ TensorList list, const StepControl* control) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  wait_for_previous_kernel();
  if (control != nullptr && !control->skip) return;
  copy_chunk(range, list.state1[range.index], list.parameter[range.index]);
}

}  // namespace

void save_to_restore(std::span<const TensorEntry> tensors, cudaStream_t stream) {
  launch_lists("save_to_restore", tensors, save_kernel, stream);
}

void restore(std::span<const TensorEntry> tensors, cudaStream_t stream) {
  launch_lists("restore", tensors, restore_kernel, stream, nullptr);
}

void restore_if_skipped(std::span<const TensorEntry> tensors, const StepControl* control,
                        cudaStream_t stream) {
  launch_lists("restore_if_skipped", tensors, restore_kernel, stream, control);
}

}  // namespace triaccel::kernels::cuda
