#include "triaccel/saved/derived_tensor.h"

#include <ATen/ATen.h>
#include <ATen/TensorGeometry.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <optional>
#include <utility>

#include "triaccel/ops/norm_history.h"
#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/raw_tensor.h"

namespace triaccel {
namespace {

/// What turns a norm's input into its output, by reference: all of it is held anyway.
struct NormConstants {
  RawTensor mean, inverse_deviation, weight, bias;
  bool by_channel;  // a batch norm's lie along the second dimension

  /// As FP32.
  at::Tensor applied_to(const at::Tensor& input) const {
    const auto shaped = [&](const at::Tensor& constant) {
      if (!by_channel) return constant;
      std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
      shape[1] = -1;
      return constant.view(shape);
    };
    const at::Tensor deviation = inverse_deviation.value().to(at::kFloat);
    const at::Tensor shift = mean.value().to(at::kFloat).mul(deviation).neg_();
    at::Tensor output =
        at::empty_strided(input.sizes(), input.strides(), input.options().dtype(at::kFloat));
    if (!by_channel) {
      at::mul_out(output, input, deviation).add_(shift);
      return output.mul_(weight.value()).add_(bias.value());
    }
    const at::Tensor factor = deviation.mul(weight.value());
    const at::Tensor offset = shift.mul_(weight.value()).add_(bias.value());
    return at::mul_out(output, input, shaped(factor)).add_(shaped(offset));
  }
};

/// The parameter that an operand of a node is; undefined: something else.
at::Tensor parameter_at(const torch::autograd::Node& node, std::size_t operand) {
  if (node.num_outputs() <= operand) return {};
  const auto* leaf =
      dynamic_cast<const torch::autograd::AccumulateGrad*>(node.next_edge(operand).function.get());
  return leaf == nullptr ? at::Tensor() : leaf->variable;
}

std::optional<NormConstants> constants_of(const torch::autograd::Node& norm,
                                          const std::vector<at::Tensor>& statistics) {
  NormHistory history;
  if (const auto* joined = dynamic_cast<const HasNormHistory*>(&norm)) {
    history = joined->norm_history();
  } else if (statistics.size() >= 2) {
    history = {.statistics = {statistics[0], statistics[1]},
               .weight = parameter_at(norm, 1),
               .bias = parameter_at(norm, 2)};
  }
  if (!history.weight.defined() || !history.bias.defined()) return {};
  return NormConstants{.mean = RawTensor(history.statistics.mean),
                       .inverse_deviation = RawTensor(history.statistics.inverse_deviation),
                       .weight = RawTensor(history.weight),
                       .bias = RawTensor(history.bias),
                       .by_channel = operation_name(norm) != "NativeLayerNorm"};
}

/// Whether an element of one lies where the same element of the other lies, views between them.
bool lie_alike(const at::Tensor& tensor, const TensorLayout& source) {
  if (tensor.sizes() == at::IntArrayRef(source.sizes))
    return tensor.strides() == at::IntArrayRef(source.strides);
  return tensor.numel() == c10::multiply_integers(source.sizes) && tensor.is_contiguous() &&
         at::geometry_is_contiguous(source.sizes, source.strides);
}

at::Tensor mapped(at::Tensor values, DerivedMap map, const at::Tensor& gate) {
  switch (map) {
    case DerivedMap::Relu:
      return values.mul_(gate);
    case DerivedMap::Silu:
      return at::silu(values);
    case DerivedMap::Gelu:
      return at::gelu(values);
    case DerivedMap::GeluTanh:
      return at::gelu(values, "tanh");
    case DerivedMap::None:
    case DerivedMap::Product:
      return values;
  }
  return values;
}

}  // namespace

void DerivationSources::add(std::uint64_t node, const SharedRecord& record, TensorLayout layout) {
  nodes_[node].saved.push_back({record, std::move(layout)});
}

void DerivationSources::add_statistic(std::uint64_t node, const at::Tensor& statistic) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.statistics.push_back(statistic.tensor_data());
}

SavedRecord DerivationSources::product(const at::Tensor& tensor, const Node& node) const {
  if (node.saved.size() != 2) return {};
  const bool first = c10::multiply_integers(node.saved[0].layout.sizes) == tensor.numel();
  const Source& map = node.saved[first ? 0 : 1];
  const Source& factor = node.saved[first ? 1 : 0];
  if (!lie_alike(tensor, map.layout)) return {};
  const SharedRecord values = map.record.lock(), factors = factor.record.lock();
  if (!values || !factors) return {};
  return {.bytes = 0,
          .decode = [decoded = decoded_, values, factors, shape = map.layout, by = factor.layout,
                     layout = TensorLayout(tensor)] {
            const at::Tensor scales = by.of(factors->decode());
            const at::Tensor found = shape.of(decoded->of(values));
            at::Tensor all = shape.empty();
            return layout.of(at::mul_out(all, found, scales));
          }};
}

SavedRecord DerivationSources::record_of(const at::Tensor& tensor,
                                         const std::function<at::Tensor()>& mask) const {
  const DerivationChain chain = derivation_chain(tensor.grad_fn().get());
  if (chain.source == nullptr) return {};
  const auto node = nodes_.find(chain.source->sequence_nr());
  if (node == nodes_.end() || node->second.saved.empty()) return {};
  if (chain.map == DerivedMap::Product) return product(tensor, node->second);
  const Source& source = node->second.saved.front();
  const SharedRecord record = source.record.lock();
  if (!record || !lie_alike(tensor, source.layout)) return {};
  std::optional<NormConstants> norm;
  if (chain.norm != nullptr) {
    norm = constants_of(*chain.norm, node->second.statistics);
    if (!norm) return {};
  }
  return {.bytes = 0,
          .decode = [decoded = decoded_, record, norm, chain_map = chain.map, mask,
                     shape = source.layout, layout = TensorLayout(tensor)] {
            const bool rectified = chain_map == DerivedMap::Relu;
            at::Tensor values = shape.of(decoded->of(record));
            if (norm) values = norm->applied_to(values);
            // Views keep the order of elements, so the gate may be taken as if it were the
            // source's.
            const at::Tensor gate = rectified ? shape.of(mask()) : at::Tensor();
            return layout.of(mapped(values, chain_map, gate).to(layout.options));
          }};
}

}  // namespace triaccel
