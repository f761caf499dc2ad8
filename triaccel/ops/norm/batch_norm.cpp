#include "triaccel/ops/norm/batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string_view>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

bool channels_innermost(const at::Tensor& map) {
  return (map.dim() == 2 && map.is_contiguous()) ||
         (map.dim() == 4 && map.is_contiguous(at::MemoryFormat::ChannelsLast));
}

kernels::NormMap map_of(std::string_view who, const at::Tensor& input) {
  require(input.defined(), who, "input is an undefined tensor");
  require(fuses_batch_norm(input), who,
          "input must be [N, C] contiguous or [N, C, H, W] channels-last, not empty, of float32, "
          "bfloat16 or float16; got ",
          input.sizes(), " with strides ", input.strides(), " of ",
          c10::toString(input.scalar_type()), "; call contiguous(MemoryFormat::ChannelsLast)");
  const std::int64_t channels = input.size(1);
  return {.rows = input.numel() / channels,
          .channels = channels,
          .type = float_type_of(who, "input", input.scalar_type())};
}

void check_like(std::string_view who, std::string_view name, const at::Tensor& tensor,
                const at::Tensor& input) {
  check_tensor(who, name, tensor, input.device(), input.scalar_type());
  require(tensor.sizes() == input.sizes(), who, name, " must have shape ", input.sizes(), ", got ",
          tensor.sizes());
  require(channels_innermost(tensor), who, name, " must lie in memory as the input, got strides ",
          tensor.strides());
}

float* row_of(std::string_view who, std::string_view name, const at::Tensor& tensor,
              const at::Tensor& input) {
  if (!tensor.defined()) return nullptr;
  check_contiguous(who, name, tensor, input.device(), at::kFloat, {input.size(1)});
  return static_cast<float*>(tensor.data_ptr());
}

float* needed_row(std::string_view who, std::string_view name, const at::Tensor& tensor,
                  const at::Tensor& input) {
  require(tensor.defined(), who, name, " is an undefined tensor");
  return row_of(who, name, tensor, input);
}

/// As kernels that keep ReLU masks want a map: from a multiple of 16 bytes on, as allocators place
/// it.
at::Tensor placed(const at::Tensor& map) {
  constexpr std::uintptr_t wide = 16;
  if (!map.defined() || reinterpret_cast<std::uintptr_t>(map.const_data_ptr()) % wide == 0)
    return map;
  return map.clone();
}

std::uint8_t* mask_of(std::string_view who, const at::Tensor& relu_mask, const at::Tensor& input,
                      const kernels::NormMap& map, Activation activation) {
  if (!relu_mask.defined()) return nullptr;
  require(activation == Activation::Relu, who, "a ReLU mask requires the ReLU activation");
  const std::int64_t samples = input.size(0);
  check_contiguous(who, "relu_mask", relu_mask, input.device(), at::kByte,
                   {samples, kernels::relu_mask_bytes(map) / samples});
  return static_cast<std::uint8_t*>(relu_mask.data_ptr());
}

kernels::SampleFactors factors_of(std::string_view who, const at::Tensor& factor,
                                  const at::Tensor& input, Activation activation) {
  if (!factor.defined()) return {};
  require(
      is_sample_factor(factor, input), who,
      "a factor must have one number per sample, contiguous, of the input's type and device; got ",
      factor.sizes(), " of ", c10::toString(factor.scalar_type()), " for ", input.sizes());
  require(activation != Activation::Silu, who, "a factor supports ReLU or no activation");
  return {.values = factor.const_data_ptr(), .rows = input.numel() / input.size(0) / input.size(1)};
}

kernels::NormForward forward_of(std::string_view who, const at::Tensor& output,
                                const at::Tensor& input, const NormParameters& parameters,
                                const at::Tensor& residual, Activation activation) {
  const kernels::NormMap map = map_of(who, input);
  check_like(who, "output", output, input);
  require(!output.is_alias_of(input) || output.data_ptr() != input.data_ptr(), who,
          "output must not be the input");
  if (residual.defined()) {
    check_like(who, "residual", residual, input);
    require(activation != Activation::Silu, who, "a residual supports ReLU or no activation");
  }
  return {.map = map,
          .output = output.data_ptr(),
          .input = input.const_data_ptr(),
          .residual = residual.defined() ? residual.const_data_ptr() : nullptr,
          .weight = row_of(who, "weight", parameters.weight, input),
          .bias = row_of(who, "bias", parameters.bias, input),
          .activation = activation,
          .eps = static_cast<float>(parameters.eps)};
}

/// A gradient in the input's type and order.
at::Tensor ordered_as(const at::Tensor& input, const at::Tensor& gradient) {
  return gradient.to(input.scalar_type())
      .contiguous(input.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

at::Tensor gradient_like(std::string_view who, std::string_view name, const at::Tensor& gradient,
                         const at::Tensor& input) {
  require(gradient.sizes() == input.sizes(), who, name, " must have shape ", input.sizes(),
          ", got ", gradient.sizes());
  const at::Tensor like = ordered_as(input, gradient);
  check_like(who, name, like, input);
  return like;
}

/// What is added to the output's gradient, and which of its pixels that is.
struct AddedGradient {
  at::Tensor values;  // undefined: none
  kernels::EvenPixels pixels;
};

AddedGradient added_to(std::string_view who, const at::Tensor& added, const at::Tensor& input) {
  if (!added.defined()) return {};
  if (input.dim() == 4 && added.dim() == 4 && added.sizes() != input.sizes()) {
    const kernels::EvenPixels pixels = {
        .samples = input.size(0), .height = input.size(2), .width = input.size(3)};
    const std::vector<std::int64_t> even = {input.size(0), input.size(1), pixels.half_height(),
                                            pixels.half_width()};
    if (added.sizes() == at::IntArrayRef(even)) {
      const at::Tensor values = ordered_as(input, added);
      check_tensor(who, "added_gradient", values, input.device(), input.scalar_type());
      return {values, pixels};
    }
  }
  return {gradient_like(who, "added_gradient", added, input), {}};
}

kernels::NormBatchStatistics statistics_of(std::string_view who, const NormStatistics& saved,
                                           const at::Tensor& input,
                                           const NormParameters& parameters) {
  require(input.numel() / input.size(1) > 1, who,
          "training needs two values per channel, got input ", input.sizes(),
          "; use a larger batch");
  return {.mean = needed_row(who, "saved.mean", saved.mean, input),
          .inverse_deviation =
              needed_row(who, "saved.inverse_deviation", saved.inverse_deviation, input),
          .running_mean = row_of(who, "running_mean", parameters.running_mean, input),
          .running_variance = row_of(who, "running_variance", parameters.running_variance, input),
          .momentum = static_cast<float>(parameters.momentum)};
}

kernels::ResidualNorm residual_norm_of(std::string_view who, const NormedResidual& norm,
                                       const at::Tensor& residual) {
  if (!norm.statistics.mean.defined()) return {};
  require(residual.defined(), who, "residual_norm requires a residual");
  return {.mean = row_of(who, "residual_norm.statistics.mean", norm.statistics.mean, residual),
          .inverse_deviation = needed_row(who, "residual_norm.statistics.inverse_deviation",
                                          norm.statistics.inverse_deviation, residual),
          .weight = row_of(who, "residual_norm.weight", norm.weight, residual),
          .bias = row_of(who, "residual_norm.bias", norm.bias, residual)};
}

/// For the CUDA kernels; the allocator keeps it until the stream has passed.
at::Tensor scratch_for(const kernels::NormMap& map, const at::Tensor& input) {
  return at::empty({kernels::cuda::batch_norm_scratch_bytes(map)},
                   input.options().dtype(at::kByte));
}

void train(std::string_view who, const kernels::NormForward& forward,
           const kernels::NormBatchStatistics& statistics, const at::Tensor& input) {
  dispatch(
      who, input.device(), [&] { kernels::cpu::batch_norm_train(forward, statistics); },
      [&](cudaStream_t stream) {
        const at::Tensor scratch = scratch_for(forward.map, input);
        kernels::cuda::batch_norm_train(forward, statistics, scratch.data_ptr(), stream);
      });
}

void infer(std::string_view who, const kernels::NormForward& forward,
           const kernels::NormKnownStatistics& statistics, c10::Device device) {
  dispatch(
      who, device, [&] { kernels::cpu::batch_norm_infer(forward, statistics); },
      [&](cudaStream_t stream) { kernels::cuda::batch_norm_infer(forward, statistics, stream); });
}

}  // namespace

bool fuses_batch_norm(const at::Tensor& map) {
  return map.defined() && map.layout() == at::kStrided && map.numel() > 0 &&
         (map.is_cpu() || map.is_cuda()) && is_float_type(map.scalar_type()) &&
         channels_innermost(map);
}

bool is_sample_factor(const at::Tensor& factor, const at::Tensor& map) {
  return factor.defined() && factor.layout() == at::kStrided && factor.dim() == map.dim() &&
         factor.dim() > 0 && factor.size(0) == map.size(0) && factor.numel() == map.size(0) &&
         factor.is_contiguous() && factor.scalar_type() == map.scalar_type() &&
         factor.device() == map.device();
}

at::Tensor empty_relu_mask(const at::Tensor& input) {
  const kernels::NormMap map = map_of("empty_relu_mask", input);
  return at::empty({input.size(0), kernels::relu_mask_bytes(map) / input.size(0)},
                   input.options().dtype(at::kByte));
}

void batch_norm_train(const at::Tensor& output, const NormStatistics& saved,
                      const at::Tensor& given_input, const NormParameters& parameters,
                      const NormEpilogue& epilogue) {
  constexpr std::string_view who = "batch_norm_train";
  const at::NoGradGuard no_gradient;
  const bool keeps_mask = epilogue.relu_mask.defined();
  const at::Tensor input = keeps_mask ? placed(given_input) : given_input;
  const at::Tensor residual = keeps_mask ? placed(epilogue.residual) : epilogue.residual;
  const Activation activation = epilogue.activation;
  kernels::NormForward forward = forward_of(who, output, input, parameters, residual, activation);
  forward.relu_mask = mask_of(who, epilogue.relu_mask, input, forward.map, activation);
  forward.residual_norm = residual_norm_of(who, epilogue.residual_norm, residual);
  forward.factors = factors_of(who, epilogue.factor, input, activation);
  require(!epilogue.factor.defined() || forward.residual_norm.mean == nullptr, who,
          "a residual cannot be combined with both a factor and a norm of its own");
  require(!keeps_mask || placed(output).is_same(output), who,
          "an output with a ReLU mask must start at a multiple of 16 bytes; allocate it by itself");
  train(who, forward, statistics_of(who, saved, input, parameters), input);
}

void batch_norm_statistics(const NormStatistics& saved, const at::Tensor& input,
                           const NormParameters& parameters) {
  constexpr std::string_view who = "batch_norm_statistics";
  const kernels::NormForward forward = {.map = map_of(who, input),
                                        .input = input.const_data_ptr(),
                                        .eps = static_cast<float>(parameters.eps)};
  train(who, forward, statistics_of(who, saved, input, parameters), input);
}

void batch_norm_infer(const at::Tensor& output, const at::Tensor& input,
                      const NormParameters& parameters, const at::Tensor& residual,
                      Activation activation) {
  constexpr std::string_view who = "batch_norm_infer";
  infer(who, forward_of(who, output, input, parameters, residual, activation),
        {.mean = needed_row(who, "running_mean", parameters.running_mean, input),
         .variance = needed_row(who, "running_variance", parameters.running_variance, input)},
        input.device());
}

void batch_norm_again(const at::Tensor& output, const NormStatistics& saved,
                      const at::Tensor& input, const NormParameters& parameters,
                      Activation activation) {
  constexpr std::string_view who = "batch_norm_again";
  infer(who, forward_of(who, output, input, parameters, /*residual=*/{}, activation),
        {.mean = needed_row(who, "saved.mean", saved.mean, input),
         .inverse_deviation =
             needed_row(who, "saved.inverse_deviation", saved.inverse_deviation, input)},
        input.device());
}

NormGradients batch_norm_backward(const NormBackwardInputs& inputs) {
  constexpr std::string_view who = "batch_norm_backward";
  const at::NoGradGuard no_gradient;
  const auto& [output_gradient, added_gradient, given_input, relu_mask, saved, parameters,
               activation, has_residual, want_input, factor] = inputs;
  const kernels::NormMap map = map_of(who, given_input);
  const bool has_mask = relu_mask.defined();
  const auto ready = [has_mask](const at::Tensor& one) { return has_mask ? placed(one) : one; };
  const at::Tensor input = ready(given_input);
  require(output_gradient.defined(), who, "output_gradient is an undefined tensor");
  require(!has_residual || activation != Activation::Silu, who,
          "a residual supports ReLU or no activation");
  require(has_mask || !(has_residual || factor.defined()) || activation != Activation::Relu, who,
          "ReLU after a factor or a residual needs the mask that batch_norm_train wrote");
  const at::Tensor incoming = ready(gradient_like(who, "output_gradient", output_gradient, input));
  AddedGradient added = added_to(who, added_gradient, input);
  added.values = ready(added.values);

  NormGradients gradients;
  const auto row = [&] { return at::empty({map.channels}, input.options().dtype(at::kFloat)); };
  if (want_input) gradients.input = at::empty_like(incoming);
  if (parameters.weight.defined()) gradients.weight = row();
  if (parameters.bias.defined()) gradients.bias = row();
  const bool passes_on = has_residual && !has_mask && !added.values.defined();
  if (has_residual) gradients.residual = passes_on ? incoming : at::empty_like(incoming);

  const auto pointer = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr() : nullptr;
  };
  const kernels::NormBackward backward = {
      .map = map,
      .output_gradient = incoming.const_data_ptr(),
      .added_gradient = pointer(added.values),
      .added_pixels = added.pixels,
      .input = input.const_data_ptr(),
      .factors = factors_of(who, factor, input, activation),
      .relu_mask = mask_of(who, relu_mask, input, map, activation),
      .mean = needed_row(who, "saved.mean", saved.mean, input),
      .inverse_deviation =
          needed_row(who, "saved.inverse_deviation", saved.inverse_deviation, input),
      .weight = row_of(who, "weight", parameters.weight, input),
      .bias = row_of(who, "bias", parameters.bias, input),
      .activation = activation,
      .input_gradient = pointer(gradients.input),
      .residual_gradient = passes_on ? nullptr : pointer(gradients.residual),
      .weight_gradient = static_cast<float*>(pointer(gradients.weight)),
      .bias_gradient = static_cast<float*>(pointer(gradients.bias))};
  dispatch(
      who, input.device(), [&] { kernels::cpu::batch_norm_backward(backward); },
      [&](cudaStream_t stream) {
        const at::Tensor scratch = scratch_for(map, input);
        kernels::cuda::batch_norm_backward(backward, scratch.data_ptr(), stream);
      });
  return gradients;
}

}  // namespace triaccel
