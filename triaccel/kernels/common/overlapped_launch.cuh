#pragma once

#include <string_view>

#include "triaccel/kernels/common/launch.cuh"

namespace triaccel::kernels::cuda {

/// The chip that the code which runs on the current device was made for: 90 for sm_90. The device
/// alone does not tell what its code can do: PTX of an older chip runs on it too. 0: none runs.
int code_target();

/// Code that waits for the kernel before it, and knows clusters.
inline bool code_is_for_sm_90() { return code_target() >= 90; }

// For a short kernel the launch latency counts. Launched overlapped (CUDA's programmatic dependent
// launch, sm_90 and later), it starts while the kernel before it in the stream is still ending,
// whoever wrote that one, and waits where it needs that kernel's results.

struct LaunchShape {
  dim3 grid, threads;
  unsigned shared_bytes = 0;
  unsigned cluster = 1;  // blocks along x
  bool overlaps = true;  // long kernels have little to gain, and while they wait may take room
                         // from what is still to come of a convolution that lets them start
};

/// In place of <<<>>>, for a kernel that calls wait_for_previous_kernel(). Captured, it makes a
/// programmatic edge; where no kernel lies before it, it starts as any other.
template <typename... Parameters, typename... Arguments>
void launch_overlapped(std::string_view who, void (*kernel)(Parameters...),
                       const LaunchShape& shape, cudaStream_t stream,
                       const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (shape.overlaps && code_is_for_sm_90()) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {shape.cluster, 1, 1};
  }
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, arguments...));
  check_launch(who);
}

/// Returns when all that the kernels before have written is here. By every thread of every block,
/// before global memory is read or written and before any return: a kernel with a block that does
/// not wait could end before the one before it, and the next, which waits for it alone, would take
/// memory that is still in use; the allocator hands on what is freed in the order of the stream.
/// What may come first is arithmetic on arguments and thread indices, setting up shared memory, and
/// tables that no kernel ever writes.
/// No __ldg and no __restrict__ in such a kernel: they promise that what it reads does not change
/// from its start on, and let the compiler read it before the wait.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel of the stream, if launched overlapped, start and wait as soon as every
/// block has come here or ended. All blocks have started by then, so that it takes room from none
/// of them; but its own go where room is first, not evenly over the chip. Therefore only in the
/// first kernel of two that belong together, where its memory is read, and in kernels of a few
/// blocks.
__device__ inline void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace triaccel::kernels::cuda
