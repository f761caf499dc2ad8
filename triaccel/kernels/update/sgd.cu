#include "triaccel/kernels/update/sgd.h"

#include "triaccel/kernels/common/chunk_loop.cuh"
#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    sgd_kernel(const __grid_constant__ TensorList list, const __grid_constant__ UpdateInputs inputs,
               SgdStep step) {
  const ChunkRange range = locate_chunk(list, static_cast<std::int32_t>(blockIdx.x));
  const std::int32_t layer = list.layer[range.index];
  wait_for_previous_kernel();
  if (is_skipped(inputs, layer)) return;
  float* p = list.parameter[range.index];
  float* v = list.state1[range.index];
  const FloatType type = list.gradient_type[range.index];
  const float multiplier = gradient_multiplier(inputs, layer, type);
  const float learning_rate = inputs.learning_rates[layer];
  with_stored_type(type, [&]<typename Stored>(Stored) {
    const auto* g = static_cast<const typename Stored::Word*>(list.gradient[range.index]);
    for_each_element(
        range, aligned_for_vectors(p, v, g),
        [&](std::int64_t i) {
          float4 p4 = load4(p + i);
          float4 v4 = load4(v + i);
          const float4 g4 = load4<Stored>(g + i);
          sgd_element(p4.x, v4.x, multiplier * g4.x, learning_rate, step);
          sgd_element(p4.y, v4.y, multiplier * g4.y, learning_rate, step);
          sgd_element(p4.z, v4.z, multiplier * g4.z, learning_rate, step);
          sgd_element(p4.w, v4.w, multiplier * g4.w, learning_rate, step);
          store4(p + i, p4);
          store4(v + i, v4);
        },
        [&](std::int64_t i) {
          sgd_element(p[i], v[i], multiplier * Stored::value(g[i]), learning_rate, step);
        });
  });
}

}  // namespace

void sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs, SgdStep step,
                cudaStream_t stream) {
  launch_lists("sgd_update", tensors, sgd_kernel, stream, inputs, step);
}

}  // namespace triaccel::kernels::cuda
