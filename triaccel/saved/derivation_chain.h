#pragma once

#include <cstdint>

#include "triaccel/core/saved_census.h"

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

}  // namespace triaccel
