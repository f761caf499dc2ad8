#include "triaccel/core/layer_registry.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

bool owns(const LayerInfo& layer, std::string_view parameter) {
  return std::ranges::find(layer.parameters, parameter) != layer.parameters.end();
}

}  // namespace

void LayerRegistry::add(LayerInfo layer) {
  require(!layer.parameters.empty(), "LayerRegistry::add", "layer '", layer.name,
          "' has no parameters");
  for (const std::string& parameter : layer.parameters)
    for (const LayerInfo& earlier : layers_)
      require(!owns(earlier, parameter), "LayerRegistry::add", "parameter '", parameter,
              "' belongs to layer '", earlier.name, "' already");
  layers_.push_back(std::move(layer));
}

std::int64_t LayerRegistry::layer_of(std::string_view parameter) const {
  for (std::size_t id = 0; id < layers_.size(); ++id)
    if (owns(layers_[id], parameter)) return static_cast<std::int64_t>(id);
  throw UsageError(text("[LayerRegistry::layer_of] no layer owns parameter '", parameter, "'"));
}

}  // namespace triaccel
