#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/update/matrix_list.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels {

struct AdaLomoStep {
  float decay_power = 0.8f;         // the moving averages forget by 1 - t^-decay_power
  float gradient_epsilon = 1e-30f;  // added to squared gradients
  float weight_epsilon = 1e-3f;     // smallest root mean square of the weights that counts
  float weight_decay = 0;
};

/// AdaLomo (Lv et al. 2023, arXiv 2310.10195). For every tensor that the gate of `inputs` admits,
/// as a matrix of `rows` rows, with g multiplied as update_gate.h says, lr = learning_rates[layer],
/// t = the number of this step among the applied ones and b = 1 - t^-decay_power, which is 0 in the
/// first step: the averages need no other bias correction.
///   r_i <- b * r_i + (1 - b) * mean_j (g_ij^2 + gradient_epsilon)
///   c_j <- b * c_j + (1 - b) * mean_i (g_ij^2 + gradient_epsilon)
///   u_ij = g_ij / sqrt(r_i * c_j / mean(r))
///   p <- p - lr * weight_decay * p
///          - lr * u / max(1, RMS(u)) * max(weight_epsilon, RMS(p))
/// p = parameter; state1 = r, then c; of one row, c alone, which is then the whole second moment.
/// state2 = a workspace of adalomo_workspace_size() floats, zero before the first call. No bit of
/// the other tensors changes. Moves 12 bytes and three gradients per element: RMS(u) is known only
/// when r and c are, and the update only when RMS(u) is.
namespace cpu {
void adalomo_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                    AdaLomoStep step);
}
namespace cuda {
void adalomo_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                    AdaLomoStep step, cudaStream_t stream);
}

/// Over a tile or a matrix.
template <typename Sum>
struct AdaLomoSums {
  Sum weights = 0;      // of squares
  Sum updates = 0;      // of squares of g / sqrt(r * c)
  Sum row_moments = 0;  // of r
};

template <typename Sum, typename Part>
TRIACCEL_HOST_DEVICE inline void add_sums(AdaLomoSums<Sum>& all, const AdaLomoSums<Part>& part) {
  all.weights += part.weights;
  all.updates += part.updates;
  all.row_moments += part.row_moments;
}

/// Where things lie in a tensor's workspace.
struct AdaLomoWorkspace {
  std::uint32_t* ticket;      // for CUDA
  float* scale;               // of the update: adalomo_scale
  float* row_sums;            // [tiles_across, rows]
  float* column_sums;         // [tiles_down, columns]
  AdaLomoSums<float>* tiles;  // [tiles]
};

TRIACCEL_HOST_DEVICE inline AdaLomoWorkspace adalomo_workspace(const MatrixTensor& tensor) {
  float* row_sums = tensor.workspace + 2;
  float* column_sums = row_sums + tensor.tiles_across() * tensor.rows;
  float* tiles = column_sums + tensor.tiles_down() * tensor.columns;
  return {reinterpret_cast<std::uint32_t*>(tensor.workspace), tensor.workspace + 1, row_sums,
          column_sums, reinterpret_cast<AdaLomoSums<float>*>(tiles)};
}

/// Floats of the workspace of a tensor: for large ones 1.2 % of its elements.
inline std::int64_t adalomo_workspace_size(const MatrixTensor& tensor) {
  return 2 + tensor.tiles_across() * tensor.rows + tensor.tiles_down() * tensor.columns +
         3 * tensor.tiles();
}

/// A tensor of one row has its second moment in full.
TRIACCEL_HOST_DEVICE inline bool is_factored(const MatrixTensor& tensor) { return tensor.rows > 1; }

TRIACCEL_HOST_DEVICE inline const float* column_moments(const MatrixTensor& tensor) {
  return tensor.state + (is_factored(tensor) ? tensor.rows : 0);
}

/// Numbers of its state.
TRIACCEL_HOST_DEVICE inline std::int64_t adalomo_state_size(const MatrixTensor& tensor) {
  return tensor.columns + (is_factored(tensor) ? tensor.rows : 0);
}

/// 1 - b.
TRIACCEL_HOST_DEVICE inline float adalomo_gain(AdaLomoStep step, std::int64_t applied_steps) {
  const float t = applied_steps > 1 ? static_cast<float>(applied_steps) : 1.0f;
  return powf(t, -step.decay_power);
}

/// Updates moment `number` of the state from the sums of the tiles. Rows come first.
TRIACCEL_HOST_DEVICE inline void adalomo_moment(const MatrixTensor& tensor, std::int64_t number,
                                                float gain, float epsilon) {
  const AdaLomoWorkspace work = adalomo_workspace(tensor);
  const bool is_row = is_factored(tensor) && number < tensor.rows;
  const std::int64_t column = number - (adalomo_state_size(tensor) - tensor.columns);
  const float* sums = is_row ? work.row_sums + number : work.column_sums + column;
  const std::int64_t stride = is_row ? tensor.rows : tensor.columns;
  const std::int64_t parts = is_row ? tensor.tiles_across() : tensor.tiles_down();
  float sum = 0;
  for (std::int64_t i = 0; i < parts; ++i) sum += sums[i * stride];
  const float mean = sum / static_cast<float>(is_row ? tensor.columns : tensor.rows) + epsilon;
  tensor.state[number] = (1.0f - gain) * tensor.state[number] + gain * mean;
}

/// What g / sqrt(r * c) is multiplied with, the learning rate aside.
TRIACCEL_HOST_DEVICE inline float adalomo_scale(const MatrixTensor& tensor,
                                                const AdaLomoSums<double>& sums, AdaLomoStep step) {
  const auto count = static_cast<double>(tensor.count());
  const double mean_row =
      is_factored(tensor) ? sums.row_moments / static_cast<double>(tensor.rows) : 1.0;
  const double update_rms = sqrt(mean_row * sums.updates / count);
  const double weight_rms = sqrt(sums.weights / count);
  const double least = double{step.weight_epsilon};
  return static_cast<float>(sqrt(mean_row) / (update_rms > 1.0 ? update_rms : 1.0) *
                            (weight_rms > least ? weight_rms : least));
}

/// `update` is g / sqrt(r * c) times adalomo_scale.
TRIACCEL_HOST_DEVICE inline void adalomo_element(float& p, float update, float learning_rate,
                                                 float weight_decay) {
  p = p * (1.0f - learning_rate * weight_decay) - learning_rate * update;
}

}  // namespace triaccel::kernels
