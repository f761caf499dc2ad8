#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "triaccel/base/host_device.h"
#include "triaccel/base/random.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/matrix_list.h"
#include "triaccel/kernels/update/update_gate.h"

namespace triaccel::kernels {

struct ApolloMiniStep {
  AdamWStep adamw = {};
  std::int64_t projection_interval = 200;  // applied steps with the same projection
  float scale = 11.3137085f;               // sqrt(128): what rank 1 loses against rank 128
  float largest_growth = 1.01f;            // of the norm of an update over that of the one before
};

/// APOLLO-Mini (Zhu et al. 2024, arXiv 2412.05270) for matrices. For every tensor that the gate of
/// `inputs` admits, with g multiplied as update_gate.h says, lr = learning_rates[layer] and
/// z = standard normal numbers, one per position on the shorter side, functions of (seed, position,
/// t / projection_interval) that are never stored:
///   R = sum of z * g over the shorter side: one number per position on the longer side
///   m, v: AdamW's moments of R;   R' = AdamW's update from them, with bias correction
///   s = scale * |R'| / |R|, lowered so that s * |g| is at most largest_growth times what it was in
///       the step before
///   p <- p - lr * weight_decay * p - lr * s * g
/// p = parameter; state1 = m, v and s * |g|: apollo_mini_state_size() floats, zero at first. state2
/// = a workspace of apollo_mini_workspace_size() floats, zero before the first call. No bit of the
/// other tensors changes. Moves 8 bytes and two gradients per element.
namespace cpu {
void apollo_mini_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                        ApolloMiniStep step);
}
namespace cuda {
void apollo_mini_update(std::span<const TensorEntry> tensors, const UpdateInputs& inputs,
                        ApolloMiniStep step, cudaStream_t stream);
}

/// Whether R has a number per row, not per column.
TRIACCEL_HOST_DEVICE inline bool keeps_rows(const MatrixTensor& tensor) {
  return tensor.rows >= tensor.columns;
}

/// Numbers in R.
TRIACCEL_HOST_DEVICE inline std::int64_t projected_size(const MatrixTensor& tensor) {
  return keeps_rows(tensor) ? tensor.rows : tensor.columns;
}

TRIACCEL_HOST_DEVICE inline std::int64_t projected_units(const MatrixTensor& tensor) {
  return divide_up(projected_size(tensor), kSumsPerUnit);
}

/// Tiles that a number of R is summed over.
TRIACCEL_HOST_DEVICE inline std::int64_t projected_parts(const MatrixTensor& tensor) {
  return keeps_rows(tensor) ? tensor.tiles_across() : tensor.tiles_down();
}

inline std::int64_t apollo_mini_state_size(const MatrixTensor& tensor) {
  return 2 * projected_size(tensor) + 1;
}

/// Sums of squares.
template <typename Sum>
struct ProjectedSums {
  Sum projected = 0;  // R
  Sum update = 0;     // R'
};

template <typename Sum, typename Part>
TRIACCEL_HOST_DEVICE inline void add_sums(ProjectedSums<Sum>& all,
                                          const ProjectedSums<Part>& part) {
  all.projected += part.projected;
  all.update += part.update;
}

/// Where things lie in a tensor's workspace.
struct ApolloMiniWorkspace {
  std::uint32_t* ticket;        // for CUDA
  float* scale;                 // s
  float* parts;                 // of R: [projected_parts, projected_size]
  float* tiles;                 // sum of squares of g: [tiles]
  ProjectedSums<float>* units;  // [projected_units]
};

TRIACCEL_HOST_DEVICE inline ApolloMiniWorkspace apollo_mini_workspace(const MatrixTensor& tensor) {
  float* parts = tensor.workspace + 2;
  float* tiles = parts + projected_parts(tensor) * projected_size(tensor);
  return {reinterpret_cast<std::uint32_t*>(tensor.workspace), tensor.workspace + 1, parts, tiles,
          reinterpret_cast<ProjectedSums<float>*>(tiles + tensor.tiles())};
}

/// Floats of the workspace of a tensor: for large ones at most 0.8 % of its elements.
inline std::int64_t apollo_mini_workspace_size(const MatrixTensor& tensor) {
  return 2 + projected_parts(tensor) * projected_size(tensor) + tensor.tiles() +
         2 * projected_units(tensor);
}

/// How often the projection has changed so far.
TRIACCEL_HOST_DEVICE inline std::int64_t projection_number(std::int64_t applied_steps,
                                                           std::int64_t interval) {
  return (applied_steps > 1 ? applied_steps - 1 : 0) / interval;
}

/// z: standard normal, by Box and Muller's method.
TRIACCEL_HOST_DEVICE inline float projection_element(std::uint64_t seed, std::int64_t projection,
                                                     std::int64_t position) {
  const RandomWords random = random_words(seed, static_cast<std::uint64_t>(position),
                                          static_cast<std::uint64_t>(projection));
  const float radius = sqrtf(-2.0f * logf(1.0f - unit_float(random.words[0])));
  return radius * cosf(6.28318531f * unit_float(random.words[1]));
}

/// Updates the moments of number `i` of R and returns its part of the sums.
TRIACCEL_HOST_DEVICE inline ProjectedSums<float> update_projected(const MatrixTensor& tensor,
                                                                  std::int64_t i, AdamWFactors f) {
  const std::int64_t size = projected_size(tensor);
  const float* parts = apollo_mini_workspace(tensor).parts;
  float r = 0;
  for (std::int64_t part = 0; part < projected_parts(tensor); ++part) r += parts[part * size + i];
  float& m = tensor.state[i];
  float& v = tensor.state[size + i];
  float update = 0;  // as a weight that starts at 0 and takes a step with learning rate -1
  f.weight_decay = 0;
  adamw_element(update, m, v, r, -1.0f, f);
  return {r * r, update * update};
}

/// s, from sums over the whole tensor; replaces the norm of the step before.
TRIACCEL_HOST_DEVICE inline float apollo_mini_scale(const MatrixTensor& tensor,
                                                    double gradient_squares,
                                                    const ProjectedSums<double>& sums,
                                                    const ApolloMiniStep& step) {
  float& norm_before = tensor.state[2 * projected_size(tensor)];
  double scale = sums.projected > 0 ? double{step.scale} * sqrt(sums.update / sums.projected) : 0.0;
  const double norm = scale * sqrt(gradient_squares);
  const double largest = double{step.largest_growth} * double{norm_before};
  if (norm_before > 0 && norm > largest) scale *= largest / norm;
  norm_before = static_cast<float>(norm_before > 0 && norm > largest ? largest : norm);
  return static_cast<float>(scale);
}

/// `gradient` is already unscaled and clipped.
TRIACCEL_HOST_DEVICE inline void apollo_mini_element(float& p, float gradient, float scale,
                                                     float learning_rate, float weight_decay) {
  p = p * (1.0f - learning_rate * weight_decay) - learning_rate * (scale * gradient);
}

}  // namespace triaccel::kernels
