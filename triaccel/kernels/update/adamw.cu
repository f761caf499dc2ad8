#include "triaccel/kernels/common/chunk_loop.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const __grid_constant__ TensorList list,
                 const __grid_constant__ UpdateInputs inputs, AdamWStep step) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const std::int32_t layer = list.layer[range.index];
  wait_for_previous_kernel();
  if (is_skipped(inputs, layer)) return;
  // FP64 powers are dear on most chips: one thread of the block takes them for all.
  __shared__ AdamWFactors shared_factors;
  if (threadIdx.x == 0) shared_factors = adamw_factors(step, step_number(inputs));
  __syncthreads();
  const AdamWFactors factors = shared_factors;
  float* p = list.parameter[range.index];
  float* m = list.state1[range.index];
  float* v = list.state2[range.index];
  const FloatType type = list.gradient_type[range.index];
  const float multiplier = gradient_multiplier(inputs, layer, type);
  const float learning_rate = inputs.learning_rates[layer];
  with_stored_type(type, [&]<typename Stored>(Stored) {
    const auto* g = static_cast<const typename Stored::Word*>(list.gradient[range.index]);
    for_each_element(
        range, aligned_for_vectors(p, m, v, g),
        [&](std::int64_t i) {
          float4 p4 = load4(p + i);
          float4 m4 = load4(m + i);
          float4 v4 = load4(v + i);
          const float4 g4 = load4<Stored>(g + i);
          adamw_element(p4.x, m4.x, v4.x, multiplier * g4.x, learning_rate, factors);
          adamw_element(p4.y, m4.y, v4.y, multiplier * g4.y, learning_rate, factors);
          adamw_element(p4.z, m4.z, v4.z, multiplier * g4.z, learning_rate, factors);
          adamw_element(p4.w, m4.w, v4.w, multiplier * g4.w, learning_rate, factors);
          store4(p + i, p4);
          store4(m + i, m4);
          store4(v + i, v4);
        },
        [&](std::int64_t i) {
          adamw_element(p[i], m[i], v[i], multiplier * Stored::value(g[i]), learning_rate, factors);
        });
  });
}

}  // namespace

void adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, AdamWStep step,
                  cudaStream_t stream) {
  launch_lists("adamw_update", tensors, adamw_kernel, stream, inputs, step);
}

}  // namespace triaccel::kernels::cuda
