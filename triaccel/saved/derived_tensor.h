#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/saved/saved_encoder.h"
#include "triaccel/saved/saved_record.h"

namespace torch::autograd {
struct Node;
}

namespace triaccel {

/// What a chain of operators does last.
enum class DerivedMap : std::uint8_t { None, Relu, Silu, Gelu, GeluTanh, Product };

/// How a tensor came from what its own history saved: through a norm, then an activation, either of
/// which may lack; or as the product of the two tensors that its node saved.
struct DerivationChain {
  Derivation derivation = Derivation::None;
  const torch::autograd::Node* norm = nullptr;    // null: none
  const torch::autograd::Node* source = nullptr;  // whose first saved tensor it starts from
  DerivedMap map = DerivedMap::None;
};

/// The chain that ends at the node which made a tensor; None where there is none.
DerivationChain derivation_chain(const torch::autograd::Node* producer);

/// What the nodes of a pass saved that other tensors are computed from again.
class DerivationSources {
 public:
  explicit DerivationSources(std::shared_ptr<DecodedTensor> decoded)
      : decoded_(std::move(decoded)) {}

  /// `node` saved a tensor that lies as `layout` says when it is decoded. The record is referred to
  /// weakly.
  void add(std::uint64_t node, const SharedRecord& record, TensorLayout layout);

  /// It saved one of its norm's statistics, the mean before the inverse deviation.
  void add_statistic(std::uint64_t node, const at::Tensor& statistic);

  void clear() { nodes_.clear(); }

  /// A record that decodes to `tensor` in its own layout, computed from what its history saved, in
  /// the pass that decodes that where it takes such a map; no decode function where it is not
  /// there, or lies in another order. `relu_mask`: of a ReLU, the tensor's.
  SavedRecord record_of(const at::Tensor& tensor, const SharedMask& relu_mask) const;

 private:
  struct Source {
    std::weak_ptr<const SavedRecord> record;
    TensorLayout layout;
  };
  struct Node {
    std::vector<Source> saved;
    std::vector<at::Tensor> statistics;
  };

  SavedRecord product(const at::Tensor& tensor, const Node& node) const;

  std::shared_ptr<DecodedTensor> decoded_;
  std::unordered_map<std::uint64_t, Node> nodes_;
};

}  // namespace triaccel
