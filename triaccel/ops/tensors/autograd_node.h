#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

// torch counts references to autograd nodes by std::shared_ptr up to 2.14 and by
// c10::intrusive_ptr from 2.15 on.
namespace triaccel {

/// What Tensor::grad_fn() and Node::getptr() return.
using NodePtr = std::decay_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

inline constexpr bool kSharedNodes =
    std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>;

/// A new node, for autograd::set_history.
template <typename Node, typename... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (kSharedNodes)
    return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
  else
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}

/// The pointer that make_node returns.
template <typename Node>
using NodePtrOf = std::conditional_t<kSharedNodes, std::shared_ptr<Node>, c10::intrusive_ptr<Node>>;

/// A node as its derived class or as an interface that it implements, kept alive; null if it is
/// neither.
template <typename Interface>
std::shared_ptr<Interface> node_as(const NodePtr& node) {
  if constexpr (kSharedNodes) {
    return std::dynamic_pointer_cast<Interface>(node);
  } else {
    auto* const found = dynamic_cast<Interface*>(node.get());
    if (found == nullptr) return nullptr;
    return std::shared_ptr<Interface>(found, [keeps = node](Interface*) {});
  }
}

}  // namespace triaccel
