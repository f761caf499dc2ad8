#include "triaccel/ops/tensors/tensor_bundle.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/device/host_memory.h"
#include "triaccel/kernels/update/state_codec.h"
#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {
namespace {

void check_parameter(std::string_view who, const ParameterRef& parameter,
                     const at::Device& device) {
  const std::string name = text("parameter '", parameter.name, "'");
  check_tensor(who, name, parameter.tensor, device, at::kFloat);
  require(parameter.tensor.is_non_overlapping_and_dense(), who, name,
          " must own dense memory; clone() it");
  require(parameter.layer >= 0 && parameter.layer <= std::numeric_limits<std::int32_t>::max(), who,
          name, " has layer ", parameter.layer, ", which is no layer id");
}

void check_disjoint(std::string_view who, const std::vector<ParameterRef>& parameters) {
  std::vector<const ParameterRef*> by_address;
  for (const ParameterRef& parameter : parameters)
    if (parameter.tensor.numel() > 0) by_address.push_back(&parameter);
  const auto begin_of = [](const ParameterRef* p) {
    return static_cast<const std::byte*>(p->tensor.const_data_ptr());
  };
  std::ranges::sort(by_address, std::less<>{}, begin_of);
  for (std::size_t i = 1; i < by_address.size(); ++i) {
    const ParameterRef* before = by_address[i - 1];
    require(begin_of(before) + before->tensor.nbytes() <= begin_of(by_address[i]), who,
            "parameters '", before->name, "' and '", by_address[i]->name,
            "' share memory; list tied weights once");
  }
}

/// Tensors as `like`, one behind the other in what `allocate` gets for so many elements.
template <typename Allocate>
std::vector<at::Tensor> as_parts(const std::vector<at::Tensor>& like, const Allocate& allocate) {
  constexpr std::int64_t unit = 32;  // elements; 128 bytes of FP32
  if (like.empty()) return {};
  std::int64_t total = 0;
  std::vector<std::int64_t> offsets;
  for (const at::Tensor& tensor : like) {
    offsets.push_back(total);
    total += round_up(tensor.numel(), unit);
  }
  const at::Tensor buffer = allocate(total);
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < like.size(); ++i)
    tensors.push_back(buffer.as_strided(like[i].sizes(), like[i].strides(), offsets[i]));
  return tensors;
}

}  // namespace

TensorBundle::TensorBundle(std::string who, std::vector<ParameterRef> parameters)
    : who_(std::move(who)), parameters_(std::move(parameters)) {
  require(!parameters_.empty(), who_, "there is no parameter to train");
  require(parameters_.front().tensor.defined(), who_, "parameter '", parameters_.front().name,
          "' is an undefined tensor");
  device_ = parameters_.front().tensor.device();
  all_.reserve(parameters_.size());
  with_gradients_.reserve(parameters_.size());
  for (const ParameterRef& parameter : parameters_) {
    check_parameter(who_, parameter, device_);
    layer_count_ = std::max(layer_count_, parameter.layer + 1);
    kernels::TensorEntry entry;
    entry.parameter = parameter.tensor.mutable_data_ptr<float>();
    entry.count = parameter.tensor.numel();
    entry.layer = static_cast<std::int32_t>(parameter.layer);
    all_.push_back(entry);
  }
  check_disjoint(who_, parameters_);
}

std::vector<at::Tensor> TensorBundle::add_state(int which, bool in_host_memory) {
  ensure(which == 1 || which == 2, "a parameter has at most two states");
  std::vector<at::Tensor> like;
  for (const ParameterRef& parameter : parameters_) like.push_back(parameter.tensor.detach());
  std::vector<at::Tensor> states = as_parts(like, [&](std::int64_t elements) {
    if (!in_host_memory) return at::zeros({elements}, like.front().options());
    const HostTensor buffer = make_host_tensor({elements}, at::kFloat, device_);
    buffer.on_host.zero_();
    return buffer.for_device;
  });
  for (std::size_t i = 0; i < states.size(); ++i)
    (which == 1 ? all_[i].state1 : all_[i].state2) = states[i].mutable_data_ptr<float>();
  return states;
}

std::vector<at::Tensor> TensorBundle::add_quantized_state(int which) {
  ensure(which == 1 || which == 2, "a parameter has at most two states");
  std::int64_t total = 0;
  std::vector<std::int64_t> offsets;
  for (const kernels::TensorEntry& entry : all_) {
    offsets.push_back(total);
    total += kernels::state_encoded_bytes(entry.count);
  }
  const at::Tensor buffer = at::zeros({total}, at::TensorOptions(at::kByte).device(device_));
  auto* begin = buffer.mutable_data_ptr<std::uint8_t>();
  std::vector<at::Tensor> states;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    states.push_back(buffer.narrow(0, offsets[i], kernels::quantized_state_bytes(all_[i].count)));
    (which == 1 ? all_[i].state1 : all_[i].state2) = reinterpret_cast<float*>(begin + offsets[i]);
  }
  return states;
}

void TensorBundle::bind_gradients() {
  with_gradients_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterRef& parameter = parameters_[i];
    const at::Tensor& gradient = parameter.tensor.grad();
    if (!gradient.defined()) continue;
    const bool fits = gradient.layout() == at::kStrided && gradient.device() == device_ &&
                      gradient.sizes() == parameter.tensor.sizes() &&
                      same_memory_order(gradient, parameter.tensor);
    require(fits, who_, "the gradient of '", parameter.name,
            "' must be strided as its parameter and on ", device_.str(), ", got shape ",
            gradient.sizes(), " on ", gradient.device().str());
    kernels::TensorEntry entry = all_[i];
    entry.parameter = parameter.tensor.mutable_data_ptr<float>();
    entry.gradient = gradient.const_data_ptr();
    entry.gradient_type = float_type_of(who_, "the gradient", gradient.scalar_type());
    with_gradients_.push_back(entry);
  }
}

std::vector<at::Tensor> in_flat_buffer(const std::vector<at::Tensor>& like,
                                       std::optional<c10::Device> device) {
  return as_parts(like, [&](std::int64_t elements) {
    const at::Tensor& first = like.front();
    return at::empty({elements}, first.options().device(device.value_or(first.device())));
  });
}

}  // namespace triaccel
