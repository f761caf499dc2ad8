#include "triaccel/saved/derivation_chain.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <string>

#include "triaccel/ops/norm/norm_history.h"
#include "triaccel/saved/graph_walk.h"

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

}  // namespace triaccel
