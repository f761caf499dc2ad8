#include "triaccel/saved/derived_tensor.h"

#include <ATen/ATen.h>
#include <ATen/TensorGeometry.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {
namespace {

using torch::autograd::Node;

/// The node before views, which leave the order of elements as it is.
const Node* before_views(const Node* node) {
  while (node != nullptr) {
    const std::string name = operation_name(*node);
    if (name != "View" && name != "UnsafeView" && name != "ReshapeAlias") break;
    node = node->next_edge(0).function.get();
  }
  return node;
}

bool is_known_norm(const Node* node) {
  if (node == nullptr) return false;
  const std::string name = operation_name(*node);
  return name == "NativeBatchNorm" || name == "CudnnBatchNorm" || name == "NativeLayerNorm";
}

DerivedMap map_of(const Node& node) {
  const std::string name = operation_name(node);
  if (name == "Relu") return DerivedMap::Relu;
  if (name == "Silu") return DerivedMap::Silu;
  if (name == "Mul" || name == "triaccel::GatedChannels") return DerivedMap::Product;
  if (name == "Gelu") return is_tanh_gelu(node) ? DerivedMap::GeluTanh : DerivedMap::Gelu;
  return DerivedMap::None;
}

/// Of a norm that is fused with what follows it.
DerivationChain fused_chain(const Node* node, const NormHistory& history) {
  if (history.has_factor || history.has_residual) return {};
  DerivationChain chain{
      .derivation = Derivation::Affine, .norm = node, .source = node, .map = DerivedMap::None};
  switch (history.activation) {
    case Activation::None:
      break;
    case Activation::Relu:
      chain.derivation = Derivation::Rectified;
      chain.map = DerivedMap::Relu;
      break;
    case Activation::Silu:
      chain.derivation = Derivation::Smooth;
      chain.map = DerivedMap::Silu;
      break;
  }
  return chain;
}

/// What turns a norm's input into its output, by reference: all of it is held anyway.
struct NormConstants {
  RawTensor mean, inverse_deviation, weight, bias;
  bool by_channel;  // a batch norm's lie along the second dimension

  /// Whether decoding can apply it: see CodecMap.
  bool fits_codec_map() const {
    const auto fits = [](const RawTensor& row) {
      const at::Tensor values = row.value();
      return values.scalar_type() == at::kFloat && values.is_contiguous();
    };
    return fits(mean) && fits(inverse_deviation) && fits(weight) && fits(bias) &&
           weight.value().dim() == 1 && bias.value().dim() == 1;
  }
  CodecMap codec_map() const {
    return {.mean = mean.value().view(-1),
            .inverse_deviation = inverse_deviation.value().view(-1),
            .weight = weight.value(),
            .bias = bias.value(),
            .by_rows = !by_channel};
  }

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

/// The parameter that an operand of a node is, or a copy of in another type; undefined: something
/// else.
at::Tensor parameter_at(const torch::autograd::Node& node, std::size_t operand) {
  if (node.num_outputs() <= operand) return {};
  const Node* origin = node.next_edge(operand).function.get();
  if (origin != nullptr && operation_name(*origin) == "ToCopy")
    origin = origin->next_edge(0).function.get();
  const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(origin);
  return leaf == nullptr ? at::Tensor() : leaf->variable;
}

std::optional<NormConstants> constants_of(const torch::autograd::Node& norm,
                                          const std::vector<at::Tensor>& statistics) {
  NormHistory history;
  if (const auto* fused = dynamic_cast<const HasNormHistory*>(&norm)) {
    history = fused->norm_history();
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

/// Whether an element of one lies where the same element of the other lies, views between them. The
/// stride of a dimension of size 1 says nothing: libraries set it as they like.
bool lie_alike(const at::Tensor& tensor, const TensorLayout& source) {
  if (tensor.sizes() == at::IntArrayRef(source.sizes)) {
    for (std::size_t i = 0; i < source.sizes.size(); ++i)
      if (source.sizes[i] > 1 && tensor.strides()[i] != source.strides[i]) return false;
    return true;
  }
  return tensor.numel() == c10::multiply_integers(source.sizes) && tensor.is_contiguous() &&
         at::geometry_is_contiguous(source.sizes, source.strides);
}

/// What decoding applies of a chain; none: it has no such map.
std::optional<CodecMap> codec_map_of(DerivedMap chain, const std::optional<NormConstants>& norm) {
  if (norm && !norm->fits_codec_map()) return {};
  CodecMap map = norm ? norm->codec_map() : CodecMap{};
  switch (chain) {
    case DerivedMap::None:
      break;
    case DerivedMap::Relu:
      map.activation = kernels::Activation::Relu;
      break;
    case DerivedMap::Silu:
      map.activation = kernels::Activation::Silu;
      break;
    case DerivedMap::Gelu:
      map.gelu = kernels::Gelu::Erf;
      break;
    case DerivedMap::GeluTanh:
      map.gelu = kernels::Gelu::Tanh;
      break;
    case DerivedMap::Product:
      return {};
  }
  // A batch norm goes by channels and GELU by rows, a layer norm the other way round.
  const bool mixed = norm && (map.by_rows ? map.activation != kernels::Activation::None
                                          : map.gelu != kernels::Gelu::None);
  return mixed ? std::nullopt : std::optional(map);
}

at::Tensor mapped(at::Tensor values, DerivedMap map, const at::Tensor& relu_mask) {
  switch (map) {
    case DerivedMap::Relu:
      return values.mul_(relu_mask);
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

DerivationChain derivation_chain(const Node* producer) {
  const Node* last = before_views(producer);
  if (last == nullptr) return {};
  if (is_known_norm(last))
    return {
        .derivation = Derivation::Affine, .norm = last, .source = last, .map = DerivedMap::None};
  if (const auto* fused = dynamic_cast<const HasNormHistory*>(last))
    return fused_chain(last, fused->norm_history());
  const DerivedMap map = map_of(*last);
  if (map == DerivedMap::None) return {};
  if (map == DerivedMap::Product)
    return {.derivation = Derivation::Affine, .norm = nullptr, .source = last, .map = map};
  const Node* norm = before_views(last->next_edge(0).function.get());
  const bool after_norm = is_known_norm(norm);
  if (map == DerivedMap::Relu && !after_norm) return {};
  return {.derivation = map == DerivedMap::Relu ? Derivation::Rectified : Derivation::Smooth,
          .norm = after_norm ? norm : nullptr,
          .source = after_norm ? norm : last,
          .map = map};
}

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
  const std::vector<std::int64_t>& sizes = map.layout.sizes;
  if (values->decode_mapped && sizes.size() == 4 &&
      factor.layout.sizes == std::vector<std::int64_t>{sizes[0], sizes[1], 1, 1})
    return {.bytes = 0,
            .decode = [values, factors, by = factor.layout, layout = TensorLayout(tensor)] {
              const at::Tensor scales = by.of(factors->decode()).to(at::kFloat).reshape(-1);
              return layout.of(values->decode_mapped({.scales = scales}, layout.type()));
            }};
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
                                         const SharedMask& relu_mask) const {
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
  const TensorLayout layout(tensor);
  const auto applied = codec_map_of(chain.map, norm);
  if (applied && applied->is_of_rows() && record->decode_rows)
    return {.bytes = 0, .decode = [record, chain_map = chain.map, norm, layout] {
              return layout.of(record->decode_rows(*codec_map_of(chain_map, norm), layout.type()));
            }};
  if (applied && !applied->is_of_rows() && record->decode_mapped) {
    const auto rebuilt = [record, norm, chain_map = chain.map, relu_mask, layout](
                             const at::Tensor& scales, at::ScalarType type) {
      CodecMap map = *codec_map_of(chain_map, norm);
      map.scales = scales;
      if (relu_mask) map.gate = relu_mask->words;
      return layout.of(record->decode_mapped(map, type));
    };
    return {.bytes = 0,
            .decode = [rebuilt, type = layout.type()] { return rebuilt({}, type); },
            .decode_mapped =
                [rebuilt](const CodecMap& further, at::ScalarType type) {
                  ensure(!further.mean.defined() && further.activation == kernels::Activation::None,
                         "what is derived from a derived tensor is its product");
                  return rebuilt(further.scales, type);
                }};
  }
  return {.bytes = 0,
          .decode = [decoded = decoded_, record, norm, chain_map = chain.map, relu_mask,
                     shape = source.layout, layout] {
            at::Tensor values = shape.of(decoded->of(record));
            if (norm) values = norm->applied_to(values);
            // Views keep the order of elements, so the mask may be taken as if it were the
            // source's.
            const at::Tensor open =
                relu_mask ? shape.of(decode_saved_mask(*relu_mask, layout, /*as_bool=*/true))
                          : at::Tensor();
            return layout.of(mapped(values, chain_map, open).to(layout.options));
          }};
}

}  // namespace triaccel
