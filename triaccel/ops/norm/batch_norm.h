#pragma once

#include <ATen/core/Tensor.h>

#include "triaccel/kernels/norm/batch_norm.h"

namespace triaccel {

using kernels::Activation;

/// A layer's own tensors, F32 [channels]; each may be undefined: weight 1, bias 0, running
/// statistics not kept.
struct NormParameters {
  at::Tensor weight = {}, bias = {}, running_mean = {}, running_variance = {};
  double momentum = 0.1;  // share of the batch in the running statistics
  double eps = 1e-5;
};

/// Of one batch, F32 [channels]: what the backward pass needs besides the input.
struct NormStatistics {
  at::Tensor mean, inverse_deviation;
};

/// How another norm makes the residual of what it is added for: the residual given is that norm's
/// input, and its output is not stored.
struct NormedResidual {
  NormStatistics statistics = {};  // undefined: the residual is added as it is
  at::Tensor weight = {}, bias = {};
};

/// Whether the kernels take this map: F32, BF16 or F16; [N, C] contiguous or [N, C, H, W] dense
/// with the channels innermost; not empty; on the CPU or CUDA.
bool fuses_batch_norm(const at::Tensor& map);

/// Memory for the gates of a ReLU behind such a map: [N, bytes of a sample], one bit an element
/// where a row of channels divides into 16 bytes, else one byte.
at::Tensor empty_norm_gates(const at::Tensor& input);

/// Whether `factor` has one number a sample of this map, as stochastic depth multiplies a branch
/// with: [N, 1, 1, 1] or [N, 1], contiguous, of the map's type and device.
bool is_sample_factor(const at::Tensor& factor, const at::Tensor& map);

/// output = activation((norm(input) * weight + bias) * factor + residual) with the batch's own mean
/// and variance, which are left in `saved` and move the running statistics as torch moves them.
/// `output` and `saved` are allocated by the caller; the output must not be the input. `residual`
/// may be undefined, and must be with SiLU; `by` says how it is normalised first. At least two rows
/// (values per channel). `gates`, of empty_norm_gates, say afterwards where a ReLU's output is
/// above zero; undefined: not kept. `factor`, of is_sample_factor, may be undefined, and must be
/// with SiLU or `by`. Only enqueues; autograd does not see it.
void batch_norm_train(const at::Tensor& output, const NormStatistics& saved,
                      const at::Tensor& input, const NormParameters& how,
                      const at::Tensor& residual, Activation activation,
                      const at::Tensor& gates = {}, const NormedResidual& by = {},
                      const at::Tensor& factor = {});

/// The statistics of batch_norm_train alone; the running ones move, too.
void batch_norm_statistics(const NormStatistics& saved, const at::Tensor& input,
                           const NormParameters& how);

/// The same from the running statistics, which must be defined.
void batch_norm_infer(const at::Tensor& output, const at::Tensor& input, const NormParameters& how,
                      const at::Tensor& residual, Activation activation);

/// The output of a batch_norm_train without factor and residual once more, to the last bit, from
/// the same input and the statistics that it left in `saved`. Moves the input and the output once.
void batch_norm_again(const at::Tensor& output, const NormStatistics& saved,
                      const at::Tensor& input, const NormParameters& how, Activation activation);

/// Tensors that were not asked for, or that the layer does not have, are undefined.
struct NormGradients {
  at::Tensor input;         // as the input
  at::Tensor weight, bias;  // F32 [channels]
  at::Tensor residual;      // as the input; without activation and addition output_gradient itself
};

/// Gradients of batch_norm_train; the factor has none. ReLU after a factor or a residual needs its
/// `gates`; elsewhere they may be undefined, and the activation's derivative is recomputed from the
/// input. With gates, `input` may be an estimate of what forward read: a gate opens where it
/// opened. The output's gradient is output_gradient + added_gradient, rounded to the input's type
/// as at::add rounds it; `added_gradient` may be undefined, or have the even rows and columns of
/// the map alone (as even_pixels gives them) and be zero elsewhere. Both may have any memory order
/// and floating type; they are copied unless they are dense like the input.
NormGradients batch_norm_backward(const at::Tensor& output_gradient,
                                  const at::Tensor& added_gradient, const at::Tensor& input,
                                  const at::Tensor& gates, const NormStatistics& saved,
                                  const NormParameters& how, Activation activation,
                                  bool has_residual, bool want_input,
                                  const at::Tensor& factor = {});

}  // namespace triaccel
