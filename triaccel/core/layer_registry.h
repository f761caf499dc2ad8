#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triaccel {

enum class LayerKind { Convolution, Linear, Embedding };

/// One layer as the controller sees it: a convolution, linear map or embedding together with the
/// biases, norms and scales that belong to it.
struct LayerInfo {
  std::string name = {};  // of the module that holds the weight
  LayerKind kind = LayerKind::Linear;
  std::vector<std::string> parameters = {};  // full names; the weight first
  std::int64_t parameter_count = 0;          // elements in all of them
  bool normalized = false;  // batch norm follows: the scale of the weight has no effect
};

/// The layers of a network in forward order; a layer's index is its LayerId in plans and reports.
class LayerRegistry {
 public:
  /// Adds the next layer; its parameters must be new.
  void add(LayerInfo layer);

  std::int64_t size() const { return static_cast<std::int64_t>(layers_.size()); }
  const LayerInfo& operator[](std::int64_t id) const {
    return layers_.at(static_cast<std::size_t>(id));
  }
  const std::vector<LayerInfo>& layers() const { return layers_; }

  /// The layer that owns a parameter; throws UsageError for an unknown name.
  std::int64_t layer_of(std::string_view parameter) const;

 private:
  std::vector<LayerInfo> layers_;
};

}  // namespace triaccel
