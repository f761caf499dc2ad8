#include "triaccel/ops/zeroth_order/zo_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "triaccel/base/error.h"
#include "triaccel/ops/tensors/dispatch.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

/// How the elements of a dense tensor are numbered; `first` is filled in by the caller.
kernels::ZoTensor numbering_of(std::string_view who, const ParameterRef& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  if (tensor.is_contiguous()) return {};
  if (tensor.is_contiguous(at::MemoryFormat::ChannelsLast))
    return {.inner_rows = tensor.size(1), .inner_columns = tensor.size(2) * tensor.size(3)};
  if (tensor.dim() == 2 && tensor.t().is_contiguous())
    return {.inner_rows = tensor.size(0), .inner_columns = tensor.size(1)};
  throw UsageError(text("[", who, "] parameter '", parameter.name,
                        "' must be contiguous or channels-last; make it contiguous()"));
}

/// The least whole number e with |x| <= 2^e.
std::int64_t exponent_above(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return mantissa == 0.5 ? exponent - 1 : exponent;
}

}  // namespace

ZoTensors::ZoTensors(std::string who, std::vector<ParameterRef> parameters, double epsilon)
    : who_(std::move(who)), parameters_(std::move(parameters)), epsilon_(epsilon) {
  require(epsilon > 0 && epsilon < 1e6, who_, "epsilon must lie in (0, 1e6), got ", epsilon);
  const TensorBundle checked(who_, parameters_);
  device_ = checked.device();
  std::int64_t first = 0;
  for (const ParameterRef& parameter : parameters_) {
    kernels::ZoTensor& tensor = numbering_.emplace_back(numbering_of(who_, parameter));
    tensor.first = first;
    const std::int64_t groups = (parameter.tensor.numel() + kernels::kZoGroup - 1);
    first += groups / kernels::kZoGroup * kernels::kZoGroup;
  }
  exponents_.assign(parameters_.size(), kNoGrid);
  const auto bytes = static_cast<std::int64_t>(numbering_.size() * sizeof(kernels::ZoTensor));
  records_ = at::zeros({bytes}, at::TensorOptions(at::kByte).device(device_));
}

void ZoTensors::round_to_grid(std::size_t index) {
  const at::Tensor tensor = parameters_[index].tensor.detach();
  const double largest = tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>();
  require(std::isfinite(largest), who_, "parameter '", parameters_[index].name, "' is not finite");
  // A tensor of zeros says nothing about the size it will have: that of a norm's scale is taken.
  const double scale = std::max(largest > 0 ? largest : 1.0, 8 * epsilon_);
  const std::int64_t needed = std::clamp<std::int64_t>(exponent_above(scale) - 22, -100, 80);
  std::int64_t& exponent = exponents_[index];
  const bool outgrown = exponent != kNoGrid &&
                        largest > std::ldexp(kernels::kZoLargestWeight, static_cast<int>(exponent));
  if (exponent == kNoGrid || outgrown) exponent = needed;
  const double step = std::ldexp(1.0, static_cast<int>(exponent));
  // Both factors are powers of two. Zero is added since minus zero would come back as zero.
  tensor.mul_(1 / step).round_().mul_(step).add_(0.0);
}

void ZoTensors::choose(const std::vector<bool>& layers) {
  const at::NoGradGuard no_grad;
  entries_.clear();
  chosen_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto layer = static_cast<std::size_t>(parameters_[i].layer);
    if (layer >= layers.size() || !layers[layer]) continue;
    round_to_grid(i);
    numbering_[i].exponent = static_cast<std::int32_t>(exponents_[i]);
    chosen_.push_back(parameters_[i].tensor);
    entries_.push_back(
        {.parameter = parameters_[i].tensor.mutable_data_ptr<float>(),
         .gradient = records_.const_data_ptr<std::uint8_t>() + i * sizeof(kernels::ZoTensor),
         .count = parameters_[i].tensor.numel(),
         .layer = static_cast<std::int32_t>(layer)});
  }
  const at::Tensor host = at::empty_like(records_, records_.options().device(at::kCPU));
  std::memcpy(host.mutable_data_ptr(), numbering_.data(), static_cast<std::size_t>(host.numel()));
  records_.copy_(host);
}

void ZoTensors::move(const kernels::ZoMove& move) const {
  dispatch<kernels::cpu::zo_move, kernels::cuda::zo_move>(who_, device_, entries_, move);
}

void ZoTensors::set_exponents(std::vector<std::int64_t> exponents) {
  ensure(exponents.size() == parameters_.size(), "a grid for every parameter");
  exponents_ = std::move(exponents);
}

void zo_estimate(const kernels::ZoEstimate& estimate, const at::Device& device) {
  dispatch<kernels::cpu::zo_estimate, kernels::cuda::zo_estimate>("zo_estimate", device, estimate);
}

void zo_close(const kernels::ZoEstimate& estimate, const kernels::StepControl* control,
              const at::Device& device) {
  dispatch<kernels::cpu::zo_close, kernels::cuda::zo_close>("zo_close", device, estimate, control);
}

}  // namespace triaccel
