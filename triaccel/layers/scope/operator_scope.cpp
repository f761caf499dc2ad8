#include "triaccel/layers/scope/operator_scope.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <utility>

#include "triaccel/layers/scope/common_type.h"

namespace triaccel {
namespace {

using Optional = std::optional<at::Tensor>;
using Symbols = c10::SymIntArrayRef;

using c10::promoteTypes;

Optional as_type(const Optional& tensor, at::ScalarType type) {
  return tensor && tensor->defined() ? Optional(tensor->to(type)) : std::nullopt;
}

/// The type in which attention computes. On Arm CPUs libtorch's kernel multiplies 16-bit matrices
/// by plain loops, many times slower than those of FP32.
at::ScalarType attention_type(at::ScalarType asked, c10::Device device) {
#if defined(__aarch64__)
  if (device.is_cpu() && c10::elementSize(asked) == 2) return at::kFloat;
#else
  static_cast<void>(device);
#endif
  return asked;
}

constexpr c10::DispatchKey kKey = c10::DispatchKey::AutocastPrivateUse1;

thread_local OperatorHooks* current_hooks = nullptr;

/// What libtorch does.
class NoHooks final : public OperatorHooks {
 public:
  bool owns(const at::Tensor&) const override { return false; }
};

/// Autograd hands a thread's dispatch keys to its own workers, but not our pointer: without a scope
/// of their own they compute as ever.
OperatorHooks& hooks() {
  static NoHooks none;
  return current_hooks != nullptr ? *current_hooks : none;
}

/// Inside a hook the operators are libtorch's own.
using LibtorchAgain = c10::impl::ExcludeDispatchKeyGuard;

void touch(const at::Tensor& tensor) { hooks().touch(tensor, /*writes=*/false); }
void touch(const Optional& tensor) {
  if (tensor) touch(*tensor);
}

/// The operands' values are needed now.
template <typename... Tensors>
void materialize(const Tensors&... tensors) {
  if (hooks().has_pending()) (touch(tensors), ...);
}

std::vector<std::int64_t> integers(Symbols symbols) {
  const c10::IntArrayRef values = C10_AS_INTARRAYREF_SLOW(symbols);
  return values.vec();
}

at::Tensor convolved(const ConvolutionCall& call) {
  if (auto fused = hooks().fused_convolution(call)) return *fused;
  materialize(call.input, call.weight, call.bias);
  return hooks().convolution(call);
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const Optional& bias,
                       Symbols stride, Symbols padding, Symbols dilation, bool transposed,
                       Symbols output_padding, c10::SymInt groups) {
  const LibtorchAgain guard(kKey);
  return convolved({input,
                    weight,
                    bias,
                    {integers(stride), integers(padding), integers(dilation), transposed,
                     integers(output_padding), groups.expect_int()}});
}

/// conv1d, conv2d and conv3d: one geometry value may stand for all dimensions, and the batch
/// dimension may be missing.
template <int kDims>
at::Tensor convolution_of(const at::Tensor& input, const at::Tensor& weight, const Optional& bias,
                          Symbols stride, Symbols padding, Symbols dilation, c10::SymInt groups) {
  const LibtorchAgain guard(kKey);
  const auto spread = [](Symbols symbols) {
    std::vector<std::int64_t> values = integers(symbols);
    if (values.size() == 1) values.resize(kDims, values[0]);
    return values;
  };
  ConvolutionGeometry geometry{.stride = spread(stride),
                               .padding = spread(padding),
                               .dilation = spread(dilation),
                               .output_padding = std::vector<std::int64_t>(kDims, 0),
                               .groups = groups.expect_int()};
  if (input.dim() == kDims + 2) return convolved({input, weight, bias, std::move(geometry)});
  materialize(input, weight, bias);  // views of placeholders have no values
  return hooks().convolution({input.unsqueeze(0), weight, bias, std::move(geometry)}).squeeze(0);
}

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const Optional& bias) {
  const LibtorchAgain guard(kKey);
  materialize(input, weight, bias);
  return hooks().linear({input, weight, bias});
}

/// The weight behind a product's right-hand side, as [out, in].
std::optional<at::Tensor> weight_behind(const at::Tensor& matrix) {
  if (matrix.dim() != 2 || !hooks().owns(matrix)) return {};
  return matrix.t();
}

/// What libtorch does with a product, once both sides are of one type.
at::Tensor product(const at::Tensor& left, const at::Tensor& right) {
  const at::ScalarType type = promoteTypes(left.scalar_type(), right.scalar_type());
  return at::matmul(left.to(type), right.to(type));
}

at::Tensor matmul(const at::Tensor& left, const at::Tensor& right) {
  const LibtorchAgain guard(kKey);
  materialize(left, right);
  if (left.dim() >= 2)
    if (const auto weight = weight_behind(right)) return hooks().linear({left, *weight, {}});
  return product(left, right);
}

at::Tensor addmm(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  const LibtorchAgain guard(kKey);
  materialize(added, left, right);
  if (added.dim() == 1 && beta.equal(1) && alpha.equal(1))
    if (const auto weight = weight_behind(right)) return hooks().linear({left, *weight, added});
  const at::ScalarType type =
      promoteTypes(added.scalar_type(), promoteTypes(left.scalar_type(), right.scalar_type()));
  return at::addmm(added.to(type), left.to(type), right.to(type), beta, alpha);
}

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, c10::SymInt padding_idx,
                     bool scale_grad_by_freq, bool sparse) {
  const LibtorchAgain guard(kKey);
  materialize(weight, indices);
  return hooks().embedding(weight, indices, padding_idx.expect_int(), scale_grad_by_freq, sparse);
}

at::Tensor batch_norm(const at::Tensor& input, const Optional& weight, const Optional& bias,
                      const Optional& mean, const Optional& variance, bool training,
                      double momentum, double eps, bool) {
  const LibtorchAgain guard(kKey);
  const BatchNormCall call{input, weight, bias, mean, variance, training, momentum, eps};
  materialize(weight, bias, mean, variance);
  if (auto fused = hooks().fused_norm(call)) return *fused;
  materialize(input);
  return hooks().batch_norm(call);
}

at::Tensor dropout(const at::Tensor& input, double probability, bool training) {
  const LibtorchAgain guard(kKey);
  materialize(input);
  return hooks().dropout(input, probability, training);
}

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const Optional& mask, double dropout_p, bool causal,
                     std::optional<double> scale, bool grouped_queries) {
  const LibtorchAgain guard(kKey);
  materialize(query, key, value, mask);
  return hooks().attention({query, key, value, mask, dropout_p, causal, scale, grouped_queries});
}

at::Tensor& bernoulli(at::Tensor& mask, double probability,
                      std::optional<at::Generator> generator) {
  const LibtorchAgain guard(kKey);
  hooks().touch(mask, /*writes=*/true);
  return hooks().bernoulli(mask, probability, generator);
}

/// Scale and shift in the input's own type: libtorch's CUDA kernel knows no mixed types, and an
/// FP32 copy of the input would be kept for backward.
at::Tensor layer_norm(const at::Tensor& input, Symbols shape, const Optional& weight,
                      const Optional& bias, double eps, bool cudnn) {
  const LibtorchAgain guard(kKey);
  materialize(input, weight, bias);
  const at::ScalarType type = input.scalar_type();
  return at::layer_norm_symint(input, shape, as_type(weight, type), as_type(bias, type), eps,
                               cudnn);
}

at::Tensor group_norm(const at::Tensor& input, std::int64_t groups, const Optional& weight,
                      const Optional& bias, double eps, bool cudnn) {
  const LibtorchAgain guard(kKey);
  materialize(input, weight, bias);
  const at::ScalarType type = input.scalar_type();
  return at::group_norm(input, groups, as_type(weight, type), as_type(bias, type), eps, cudnn);
}

/// Materializes what is deferred among the operands of any operator.
void touch_operands(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  OperatorHooks& current = hooks();
  if (!current.has_pending()) return;
  const bool writes = op.schema().is_mutable();
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().arguments().size())) {
    if (value.isTensor()) {
      current.touch(value.toTensor(), writes);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) current.touch(tensor, writes);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        if (tensor) current.touch(*tensor, writes);
    }
  }
}

/// Every operator without a hook: libtorch's own, below our key.
void any_other(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  {
    const LibtorchAgain guard(kKey);
    touch_operands(op, *stack);
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

template <Activation kActivation>
at::Tensor activation(const at::Tensor& input) {
  const LibtorchAgain guard(kKey);
  if (auto fused = hooks().activation(input, kActivation, /*in_place=*/false)) return *fused;
  materialize(input);
  return kActivation == Activation::Relu ? at::relu(input) : at::silu(input);
}

template <Activation kActivation>
at::Tensor& activation_(at::Tensor& input) {
  const LibtorchAgain guard(kKey);
  if (hooks().activation(input, kActivation, /*in_place=*/true)) return input;
  hooks().touch(input, /*writes=*/true);
  return kActivation == Activation::Relu ? at::relu_(input) : at::silu_(input);
}

at::Tensor sigmoid(const at::Tensor& input) {
  const LibtorchAgain guard(kKey);
  if (auto fused = hooks().sigmoid(input)) return *fused;
  materialize(input);
  return at::sigmoid(input);
}

at::Tensor add(const at::Tensor& left, const at::Tensor& right, const at::Scalar& alpha) {
  const LibtorchAgain guard(kKey);
  if (alpha.equal(1))
    if (auto fused = hooks().sum(left, right, /*in_place=*/false)) return *fused;
  materialize(left, right);
  return at::add(left, right, alpha);
}

/// Python's 1: a number in the shape of a tensor.
bool is_one(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.scalar_type() == at::kLong &&
         tensor.item<std::int64_t>() == 1;
}

at::Tensor& add_(at::Tensor& left, const at::Tensor& right, const at::Scalar& alpha) {
  const LibtorchAgain guard(kKey);
  if (is_one(right) && alpha.equal(1) && hooks().count_up(left)) return left;
  if (alpha.equal(1) && hooks().sum(left, right, /*in_place=*/true)) return left;
  hooks().touch(left, /*writes=*/true);
  materialize(right);
  return left.add_(right, alpha);
}

at::Tensor& add_number_(at::Tensor& left, const at::Scalar& right, const at::Scalar& alpha) {
  const LibtorchAgain guard(kKey);
  if (right.isIntegral(false) && right.equal(1) && alpha.equal(1) && hooks().count_up(left))
    return left;
  hooks().touch(left, /*writes=*/true);
  return left.add_(right, alpha);
}

at::Tensor mul(const at::Tensor& left, const at::Tensor& right) {
  const LibtorchAgain guard(kKey);
  if (auto fused = hooks().fused_product(left, right)) return *fused;
  materialize(left, right);
  if (auto ours = hooks().product(left, right)) return *ours;
  return at::mul(left, right);
}

at::Tensor adaptive_avg_pool2d(const at::Tensor& map, Symbols size) {
  const LibtorchAgain guard(kKey);
  materialize(map);
  if (size[0] == 1 && size[1] == 1)
    if (auto ours = hooks().mean_of_channels(map)) return *ours;
  return at::adaptive_avg_pool2d_symint(map, size);
}

at::Tensor max_pool2d(const at::Tensor& map, c10::IntArrayRef window, c10::IntArrayRef stride,
                      c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode) {
  const LibtorchAgain guard(kKey);
  materialize(map);
  const auto both = [](c10::IntArrayRef values) {
    return std::array<std::int64_t, 2>{values.front(), values.back()};
  };
  if (!ceil_mode && both(dilation) == std::array<std::int64_t, 2>{1, 1})
    if (auto ours = hooks().max_pool(map, {.window = both(window),
                                           .stride = both(stride.empty() ? window : stride),
                                           .padding = both(padding)}))
      return *ours;
  return at::max_pool2d(map, window, stride, padding, dilation, ceil_mode);
}

/// For operators that take no mixture of types and have nothing to do with a layer's plan.
template <CommonType kType>
void in_common_type(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const LibtorchAgain guard(kKey);
  touch_operands(op, *stack);
  bring_together(op, *stack, kType);
  op.callBoxed(stack);
}

void in_common_type_of_parts(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  {
    const LibtorchAgain guard(kKey);
    touch_operands(op, *stack);
    bring_together(op, *stack, CommonType::WidestOfParts);
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

template <CommonType kType>
void take_over(torch::Library& library) {
  for (const char* name : operators_in(kType))
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&in_common_type<kType>>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&any_other>());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, library) {
  library.impl("convolution", &convolution);
  library.impl("conv1d", &convolution_of<1>);
  library.impl("conv2d", &convolution_of<2>);
  library.impl("conv3d", &convolution_of<3>);
  library.impl("linear", &linear);
  library.impl("matmul", &matmul);
  library.impl("mm", &matmul);
  library.impl("addmm", &addmm);
  library.impl("embedding", &embedding);
  library.impl("batch_norm", &batch_norm);
  library.impl("dropout", &dropout);
  library.impl("scaled_dot_product_attention", &attention);
  library.impl("bernoulli_.float", &bernoulli);
  library.impl("layer_norm", &layer_norm);
  library.impl("group_norm", &group_norm);
  library.impl("relu", &activation<Activation::Relu>);
  library.impl("relu_", &activation_<Activation::Relu>);
  library.impl("silu", &activation<Activation::Silu>);
  library.impl("silu_", &activation_<Activation::Silu>);
  library.impl("sigmoid", &sigmoid);
  library.impl("add.Tensor", &add);
  library.impl("mul.Tensor", &mul);
  library.impl("adaptive_avg_pool2d", &adaptive_avg_pool2d);
  library.impl("max_pool2d", &max_pool2d);
  library.impl("add_.Tensor", &add_);
  library.impl("add_.Scalar", &add_number_);
  take_over<CommonType::Widest>(library);
  for (const char* name : operators_in(CommonType::WidestOfParts))
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&in_common_type_of_parts>());
  take_over<CommonType::First>(library);
  take_over<CommonType::Fp32>(library);
}

}  // namespace

void without_hooks(const std::function<void()>& work) {
  const LibtorchAgain guard(kKey);
  work();
}

OperatorScope::OperatorScope(OperatorHooks& hooks)
    : previous_(std::exchange(current_hooks, &hooks)),
      was_included_(c10::impl::tls_is_dispatch_key_included(kKey)),
      was_excluded_(c10::impl::tls_is_dispatch_key_excluded(kKey)) {
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);  // as all of autocast's keys are
}

OperatorScope::~OperatorScope() {
  current_hooks = previous_;
  c10::impl::tls_set_dispatch_key_included(kKey, was_included_);
  c10::impl::tls_set_dispatch_key_excluded(kKey, was_excluded_);
}

// What libtorch does, operands of different types brought together.

at::Tensor OperatorHooks::convolution(const ConvolutionCall& call) {
  const at::ScalarType type = promoteTypes(call.input.scalar_type(), call.weight.scalar_type());
  const ConvolutionGeometry& g = call.geometry;
  return at::convolution(call.input.to(type), call.weight.to(type), as_type(call.bias, type),
                         g.stride, g.padding, g.dilation, g.transposed, g.output_padding, g.groups);
}

at::Tensor OperatorHooks::linear(const LinearCall& call) {
  const at::ScalarType type = promoteTypes(call.input.scalar_type(), call.weight.scalar_type());
  return at::linear(call.input.to(type), call.weight.to(type), as_type(call.bias, type));
}

at::Tensor OperatorHooks::embedding(const at::Tensor& weight, const at::Tensor& indices,
                                    std::int64_t padding_idx, bool scale_grad_by_freq,
                                    bool sparse) {
  return at::embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse);
}

at::Tensor OperatorHooks::batch_norm(const BatchNormCall& call) {
  return at::batch_norm(call.input, call.weight, call.bias, call.running_mean, call.running_var,
                        call.training, call.momentum, call.eps,
                        at::globalContext().userEnabledCuDNN());
}

at::Tensor OperatorHooks::dropout(const at::Tensor& input, double probability, bool training) {
  return at::dropout(input, probability, training);
}

at::Tensor OperatorHooks::attention(const AttentionCall& call) {
  const at::ScalarType asked = promoteTypes(
      call.query.scalar_type(), promoteTypes(call.key.scalar_type(), call.value.scalar_type()));
  const at::ScalarType type = attention_type(asked, call.query.device());
  const bool adds = call.mask && call.mask->defined() && call.mask->is_floating_point();
  return at::scaled_dot_product_attention(call.query.to(type), call.key.to(type),
                                          call.value.to(type),
                                          adds ? as_type(call.mask, type) : call.mask, call.dropout,
                                          call.causal, call.scale, call.grouped_queries)
      .to(asked);
}

at::Tensor& OperatorHooks::bernoulli(at::Tensor& mask, double probability,
                                     const std::optional<at::Generator>& generator) {
  return mask.bernoulli_(probability, generator);
}

}  // namespace triaccel
