#include "triaccel/ops/norm/squeeze_excite.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>

#include "triaccel/base/error.h"
#include "triaccel/kernels/excitation/squeeze_excite.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

bool is_dense(const at::Tensor& tensor, at::IntArrayRef sizes, const at::Device& device) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device() == device &&
         tensor.sizes() == sizes && tensor.is_contiguous();
}

bool is_float(const at::Tensor& tensor, at::IntArrayRef sizes, const at::Device& device) {
  return is_dense(tensor, sizes, device) && tensor.scalar_type() == at::kFloat;
}

/// For means and layers that computes_excitation takes.
kernels::ExciteShape excite_shape(const at::Tensor& means, std::int64_t hidden) {
  return {.samples = means.size(0),
          .channels = means.size(1),
          .hidden = hidden,
          .type = float_type_of("excitation", "means", means.scalar_type())};
}

bool excite_fits_device(const kernels::ExciteShape& shape, const at::Device& device) {
  if (device.is_cpu()) return true;
  const c10::DeviceGuard guard(device);
  return device.is_cuda() && kernels::cuda::excite_fits(shape);
}

kernels::ExciteLayers pointers_of(const ExcitationLayers& layers) {
  return {.squeeze = layers.squeeze.const_data_ptr<float>(),
          .squeeze_bias = layers.squeeze_bias.const_data_ptr<float>(),
          .excite = layers.excite.const_data_ptr<float>(),
          .excite_bias = layers.excite_bias.const_data_ptr<float>()};
}

void check_layers(std::string_view who, const at::Tensor& means, const ExcitationLayers& layers) {
  require(computes_excitation(means, layers), who,
          "means must be [N, C, 1, 1] of float32, bfloat16 or float16, and the layers float32 "
          "[R, C, 1, 1], [R], [C, R, 1, 1], [C], all contiguous and on one device; ask "
          "computes_excitation first");
}

/// [N, C, 1, 1] as `like`.
void check_by_channel(std::string_view who, std::string_view name, const at::Tensor& tensor,
                      const at::Tensor& like) {
  check_contiguous(who, name, tensor, like.device(), like.scalar_type(),
                   {like.size(0), like.size(1), 1, 1});
}

void check_hidden(std::string_view who, std::string_view name, const at::Tensor& tensor,
                  const at::Tensor& gates, std::int64_t hidden) {
  check_contiguous(who, name, tensor, gates.device(), at::kFloat, {gates.size(0), hidden});
}

}  // namespace

bool computes_excitation(const at::Tensor& means, const ExcitationLayers& layers) {
  if (!means.defined() || means.dim() != 4 || !is_float_type(means.scalar_type()) ||
      !layers.squeeze.defined() || layers.squeeze.dim() != 4)
    return false;
  const std::int64_t channels = means.size(1), hidden = layers.squeeze.size(0);
  const at::Device device = means.device();
  return channels > 0 && hidden > 0 &&
         is_dense(means, std::array{means.size(0), channels, std::int64_t{1}, std::int64_t{1}},
                  device) &&
         is_float(layers.squeeze, std::array{hidden, channels, std::int64_t{1}, std::int64_t{1}},
                  device) &&
         is_float(layers.squeeze_bias, std::array{hidden}, device) &&
         is_float(layers.excite, std::array{channels, hidden, std::int64_t{1}, std::int64_t{1}},
                  device) &&
         is_float(layers.excite_bias, std::array{channels}, device) &&
         excite_fits_device(excite_shape(means, hidden), device);
}

Excitation excitation(const at::Tensor& means, const ExcitationLayers& layers) {
  constexpr std::string_view who = "excitation";
  check_layers(who, means, layers);
  const at::NoGradGuard no_gradient;
  const kernels::ExciteShape shape = excite_shape(means, layers.squeeze.size(0));
  Excitation result{
      .gates = at::empty({shape.samples, shape.channels, 1, 1}, means.options()),
      .hidden = at::empty({shape.samples, shape.hidden}, means.options().dtype(at::kFloat))};
  const kernels::ExciteLayers weights = pointers_of(layers);
  const kernels::ExciteForward arrays = {.means = means.const_data_ptr(),
                                         .hidden = result.hidden.mutable_data_ptr<float>(),
                                         .gates = result.gates.mutable_data_ptr()};
  dispatch<kernels::cpu::excite_forward, kernels::cuda::excite_forward>(who, means.device(), shape,
                                                                        weights, arrays);
  return result;
}

ExcitationGradient excitation_gradient(const at::Tensor& gates_gradient, const Excitation& forward,
                                       const ExcitationLayers& layers) {
  constexpr std::string_view who = "excitation_gradient";
  check_layers(who, forward.gates, layers);
  const kernels::ExciteShape shape = excite_shape(forward.gates, layers.squeeze.size(0));
  check_by_channel(who, "gates_gradient", gates_gradient, forward.gates);
  check_hidden(who, "hidden", forward.hidden, forward.gates, shape.hidden);
  const at::NoGradGuard no_gradient;
  ExcitationGradient result{
      .means = at::empty({shape.samples, shape.channels, 1, 1}, forward.gates.options()),
      .hidden = at::empty({shape.samples, shape.hidden}, forward.hidden.options())};
  const kernels::ExciteLayers weights = pointers_of(layers);
  const kernels::ExciteBackward arrays = {
      .gates = forward.gates.const_data_ptr(),
      .gates_gradient = gates_gradient.const_data_ptr(),
      .hidden = forward.hidden.const_data_ptr<float>(),
      .hidden_gradient = result.hidden.mutable_data_ptr<float>(),
      .means_gradient = result.means.mutable_data_ptr()};
  dispatch<kernels::cpu::excite_backward, kernels::cuda::excite_backward>(
      who, gates_gradient.device(), shape, weights, arrays);
  return result;
}

ExcitationLayers excitation_parameter_gradients(const at::Tensor& gates_gradient,
                                                const at::Tensor& means, const Excitation& forward,
                                                const ExcitationGradient& backward,
                                                at::ScalarType squeeze_type,
                                                at::ScalarType excite_type) {
  constexpr std::string_view who = "excitation_parameter_gradients";
  require(means.defined() && means.dim() == 4 && backward.hidden.defined() &&
              backward.hidden.dim() == 2 && is_float_type(means.scalar_type()),
          who, "means must be [N, C, 1, 1] and the gradient of the hidden units [N, R]");
  const kernels::ExciteShape shape = excite_shape(means, backward.hidden.size(1));
  check_by_channel(who, "means", means, means);
  check_by_channel(who, "gates", forward.gates, means);
  check_by_channel(who, "gates_gradient", gates_gradient, means);
  check_hidden(who, "hidden", forward.hidden, means, shape.hidden);
  check_hidden(who, "hidden gradient", backward.hidden, means, shape.hidden);
  require(excite_fits_device(shape, means.device()), who,
          "no kernel for these layers; check computes_excitation() first");
  const at::NoGradGuard no_gradient;
  const at::TensorOptions floats = means.options().dtype(at::kFloat);
  const std::int64_t hidden = shape.hidden, channels = shape.channels;
  ExcitationLayers result{
      .squeeze = at::empty({hidden, channels, 1, 1}, floats.dtype(squeeze_type)),
      .squeeze_bias = at::empty({hidden}, floats),
      .excite = at::empty({channels, hidden, 1, 1}, floats.dtype(excite_type)),
      .excite_bias = at::empty({channels}, floats)};
  const kernels::ExciteParameters arrays = {
      .means = means.const_data_ptr(),
      .gates = forward.gates.const_data_ptr(),
      .gates_gradient = gates_gradient.const_data_ptr(),
      .hidden = forward.hidden.const_data_ptr<float>(),
      .hidden_gradient = backward.hidden.const_data_ptr<float>(),
      .squeeze = {result.squeeze.mutable_data_ptr(), float_type_of(who, "squeeze", squeeze_type)},
      .squeeze_bias = result.squeeze_bias.mutable_data_ptr<float>(),
      .excite = {result.excite.mutable_data_ptr(), float_type_of(who, "excite", excite_type)},
      .excite_bias = result.excite_bias.mutable_data_ptr<float>()};
  dispatch<kernels::cpu::excite_parameters, kernels::cuda::excite_parameters>(who, means.device(),
                                                                              shape, arrays);
  return result;
}

}  // namespace triaccel
