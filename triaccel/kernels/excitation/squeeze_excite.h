#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/tensor_list.h"

namespace triaccel::kernels {

// The two small layers of squeeze-and-excitation (Hu et al., 2018), which make the gates of a map's
// channels from their means:
//   hidden = squeeze * means + squeeze_bias
//   gates  = sigmoid(excite * silu(hidden) + excite_bias)
// Arithmetic is FP32 whatever the types, and every sum is added in an order that depends on the
// shape alone.

/// The gradient of a sigmoid's input, from its output and the gradient of that.
TRIACCEL_HOST_DEVICE inline float sigmoid_gradient(float gate, float gradient) {
  return gradient * gate * (1.0f - gate);
}

struct ExciteShape {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t hidden = 0;
  FloatType type = FloatType::F32;  // of means, gates and their gradients: [sample][channel]
};

struct ExciteLayers {
  const float* squeeze = nullptr;       // [hidden][channel]
  const float* squeeze_bias = nullptr;  // [hidden]
  const float* excite = nullptr;        // [channel][hidden]
  const float* excite_bias = nullptr;   // [channel]
};

struct ExciteForward {
  const void* means = nullptr;
  float* hidden = nullptr;  // [sample][hidden], for backward
  void* gates = nullptr;
};

/// From the gradient of the gates to that of the means.
struct ExciteBackward {
  const void* gates = nullptr;
  const void* gates_gradient = nullptr;
  const float* hidden = nullptr;
  float* hidden_gradient = nullptr;  // [sample][hidden]
  void* means_gradient = nullptr;
};

/// A weight's gradient, of any type.
struct ExciteGradient {
  void* values = nullptr;
  FloatType type = FloatType::F32;
};

/// The gradients of all four parameters, from what forward and backward left.
struct ExciteParameters {
  const void* means = nullptr;
  const void* gates = nullptr;
  const void* gates_gradient = nullptr;
  const float* hidden = nullptr;
  const float* hidden_gradient = nullptr;
  ExciteGradient squeeze;
  float* squeeze_bias = nullptr;
  ExciteGradient excite;
  float* excite_bias = nullptr;
};

namespace cpu {
void excite_forward(const ExciteShape& shape, const ExciteLayers& layers,
                    const ExciteForward& params);
void excite_backward(const ExciteShape& shape, const ExciteLayers& layers,
                     const ExciteBackward& params);
void excite_parameters(const ExciteShape& shape, const ExciteParameters& params);
}  // namespace cpu
namespace cuda {
/// Whether the current device keeps both weights, cut into the pieces of a cluster's blocks, in
/// shared memory; the functions below are for such layers. Where they do not fit, products by the
/// whole chip are faster.
bool excite_fits(const ExciteShape& shape);
void excite_forward(const ExciteShape& shape, const ExciteLayers& layers,
                    const ExciteForward& params, cudaStream_t stream);
void excite_backward(const ExciteShape& shape, const ExciteLayers& layers,
                     const ExciteBackward& params, cudaStream_t stream);
void excite_parameters(const ExciteShape& shape, const ExciteParameters& params,
                       cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
