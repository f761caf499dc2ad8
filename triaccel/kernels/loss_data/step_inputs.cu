#include "triaccel/kernels/loss_data/step_inputs.h"

#include "triaccel/kernels/common/overlapped_launch.cuh"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) place_kernel(StepInputs inputs, StepPlaces places) {
  wait_for_previous_kernel();
  place_one(inputs, places, std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
}

}  // namespace

void place_step_inputs(const StepInputs& inputs, const StepPlaces& places, cudaStream_t stream) {
  const std::int64_t most = std::max(places.samples, places.layers);
  if (most == 0) return;
  launch_overlapped("place_step_inputs", place_kernel,
                    {.grid = blocks_for(most, kThreads), .threads = kThreads}, stream, inputs,
                    places);
}

const void* step_inputs_kernel() { return reinterpret_cast<const void*>(place_kernel); }

}  // namespace triaccel::kernels::cuda
