#pragma once

#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/kernels/update/state_codec.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels {

/// Names the random offsets by which states are rounded: an element's depend on the seed, the
/// number of this step among the applied ones and its distance from `origin`, where the memory of
/// all first states begins.
struct StateNoise {
  std::uint64_t seed = 0;
  const void* origin = nullptr;
};

/// sgd_update and adamw_update of states in 8 bits, see Note [State in 8 bits]: state1 and state2
/// point at codes, not at floats. A parameter is updated by the new FP32 moments; they are rounded
/// only when they are stored. Codes and exponents of tensors that the gate holds back keep every
/// bit. Moves 10 bytes (AdamW: 12) and a gradient per element; CPU and CUDA give equal bits.
namespace cpu {
void quantized_sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                          SgdStep step, const StateNoise& noise);
void quantized_adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                            AdamWStep step, const StateNoise& noise);
}  // namespace cpu
namespace cuda {
void quantized_sgd_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                          SgdStep step, const StateNoise& noise, cudaStream_t stream);
void quantized_adamw_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                            AdamWStep step, const StateNoise& noise, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
