#pragma once

#include <ATen/core/Tensor.h>

namespace triaccel {

// The two small layers of squeeze-and-excitation, from the means of a map's channels to their
// gates:
//   hidden = squeeze * means + squeeze_bias
//   gates  = sigmoid(excite * silu(hidden) + excite_bias)
// Means, gates and their gradients are [N, C, 1, 1], contiguous, of F32, BF16 or F16. Arithmetic is
// FP32, on the FP32 weights as they are. Nothing here is seen by autograd; all only enqueue, one
// kernel each on CUDA, and give the same bits every time.

/// F32, contiguous.
struct ExcitationLayers {
  at::Tensor squeeze;       // [R, C, 1, 1]
  at::Tensor squeeze_bias;  // [R]
  at::Tensor excite;        // [C, R, 1, 1]
  at::Tensor excite_bias;   // [C]
};

/// Whether the functions below take them. On CUDA not where the weights are too large for the
/// shared memory of a few blocks.
bool computes_excitation(const at::Tensor& means, const ExcitationLayers& layers);

struct Excitation {
  at::Tensor gates;
  at::Tensor hidden;  // F32 [N, R], before the activation
};
Excitation excitation(const at::Tensor& means, const ExcitationLayers& layers);

struct ExcitationGradient {
  at::Tensor means;
  at::Tensor hidden;  // F32 [N, R]
};
/// `forward` as excitation gave it.
ExcitationGradient excitation_gradient(const at::Tensor& gates_gradient, const Excitation& forward,
                                       const ExcitationLayers& layers);

/// The gradients of all four parameters, those of the weights in the types asked for, those of the
/// biases in F32. `backward` as excitation_gradient gave it.
ExcitationLayers excitation_parameter_gradients(const at::Tensor& gates_gradient,
                                                const at::Tensor& means, const Excitation& forward,
                                                const ExcitationGradient& backward,
                                                at::ScalarType squeeze_type,
                                                at::ScalarType excite_type);

}  // namespace triaccel
