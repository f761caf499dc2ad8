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

/// The norm that makes a residual: the residual given is its input, and its output is not stored.
struct NormedResidual {
  NormStatistics statistics = {};  // undefined: the residual is added as it is
  at::Tensor weight = {}, bias = {};
};

/// What a norm is fused with: activation(norm * factor + residual). Tensors may be undefined.
struct NormEpilogue {
  at::Tensor residual = {};  // not with SiLU
  Activation activation = Activation::None;
  at::Tensor relu_mask = {};          // of empty_relu_mask: set where a ReLU's output is above zero
  NormedResidual residual_norm = {};  // not with a factor
  at::Tensor factor = {};             // of is_sample_factor; not with SiLU
};

/// Whether the kernels take this map: F32, BF16 or F16; [N, C] contiguous or [N, C, H, W] dense
/// with the channels innermost; not empty; on the CPU or CUDA.
bool fuses_batch_norm(const at::Tensor& map);

/// Memory for the mask of a ReLU behind such a map: [N, bytes per sample], one bit per element
/// where a row of channels divides into 16 bytes, else one byte.
at::Tensor empty_relu_mask(const at::Tensor& input);

/// Whether `factor` has one number per sample of this map, as stochastic depth multiplies a branch
/// with: [N, 1, 1, 1] or [N, 1], contiguous, of the map's type and device.
bool is_sample_factor(const at::Tensor& factor, const at::Tensor& map);

/// output = activation((norm(input) * weight + bias) * factor + residual) with the batch's own mean
/// and variance, which are left in `saved` and move the running statistics as torch moves them.
/// `output` and `saved` are allocated by the caller; the output must not be the input. At least two
/// rows (values per channel). Only enqueues; autograd does not see it.
void batch_norm_train(const at::Tensor& output, const NormStatistics& saved,
                      const at::Tensor& input, const NormParameters& parameters,
                      const NormEpilogue& epilogue);

/// The statistics of batch_norm_train alone; the running ones move, too.
void batch_norm_statistics(const NormStatistics& saved, const at::Tensor& input,
                           const NormParameters& parameters);

/// The same from the running statistics, which must be defined.
void batch_norm_infer(const at::Tensor& output, const at::Tensor& input,
                      const NormParameters& parameters, const at::Tensor& residual,
                      Activation activation);

/// The output of a batch_norm_train without factor and residual once more, to the last bit, from
/// the same input and the statistics that it left in `saved`. Moves the input and the output once.
void batch_norm_again(const at::Tensor& output, const NormStatistics& saved,
                      const at::Tensor& input, const NormParameters& parameters,
                      Activation activation);

/// Tensors that were not asked for, or that the layer does not have, are undefined.
struct NormGradients {
  at::Tensor input;         // as the input
  at::Tensor weight, bias;  // F32 [channels]
  at::Tensor residual;      // as the input; without activation and addition output_gradient itself
};

/// What the backward pass of batch_norm_train reads. `relu_mask` may be undefined except for ReLU
/// after a factor or a residual: the activation's derivative is then recomputed from the input.
/// With a mask, `input` may be an estimate of what forward read.
struct NormBackwardInputs {
  at::Tensor output_gradient;
  /// Added to output_gradient and rounded as at::add rounds; may be undefined, or have the even
  /// rows and columns of the map alone (as even_pixels gives them) and be zero elsewhere. Both
  /// gradients may have any memory order and floating type; they are copied unless dense like the
  /// input.
  at::Tensor added_gradient;
  at::Tensor input;
  at::Tensor relu_mask;
  NormStatistics saved;
  NormParameters parameters;
  Activation activation;
  bool has_residual;
  bool want_input;
  at::Tensor factor = {};
};

/// Gradients of batch_norm_train; the factor has none.
NormGradients batch_norm_backward(const NormBackwardInputs& inputs);

/// How a batch norm that is joined with others made its output, for whoever computes it again:
/// activation(((input - mean) * inverse_deviation * weight + bias) * factor + residual), the factor
/// a sample, all else per channel.
struct NormHistory {
  NormStatistics statistics;
  at::Tensor weight, bias;  // undefined: 1, 0
  Activation activation = Activation::None;
  bool has_factor = false;
  bool has_residual = false;
};

/// A node of autograd's graph that can tell; the norm's input is the first tensor it saves.
class HasNormHistory {
 public:
  virtual ~HasNormHistory() = default;
  virtual NormHistory norm_history() const = 0;
};

}  // namespace triaccel
