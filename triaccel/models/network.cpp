#include "triaccel/models/network.h"

#include <torch/nn.h>

#include <unordered_set>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

bool is_weight(const torch::nn::Module& owner, const std::string& name, const at::Tensor& value) {
  if (owner.as<torch::nn::LayerNorm>() || value.dim() < 2) return false;
  // The first dimension distinguishes a matrix from a class token or position table of shape [1,
  // ...].
  return name.find("weight") != std::string::npos || value.size(0) > 1;
}

LayerKind kind_of(const torch::nn::Module& owner, const at::Tensor& weight) {
  if (owner.as<torch::nn::Embedding>() || owner.as<torch::nn::EmbeddingBag>())
    return LayerKind::Embedding;
  return weight.dim() == 2 ? LayerKind::Linear : LayerKind::Convolution;
}

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1d>() || module.as<torch::nn::BatchNorm2d>() ||
         module.as<torch::nn::BatchNorm3d>();
}

class LayerWalk {
 public:
  /// Own parameters before those of children, as Module::named_parameters.
  void visit(const torch::nn::Module& module, const std::string& path) {
    std::int64_t weights = 0;
    if (is_batch_norm(module) && !layers_.empty()) layers_.back().normalized = true;
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      const at::Tensor& value = parameter.value();
      if (!seen_.insert(value.unsafeGetTensorImpl()).second) continue;
      const std::string name = path.empty() ? parameter.key() : path + "." + parameter.key();
      if (is_weight(module, parameter.key(), value)) {
        const bool named_by_module = !path.empty() && weights++ == 0;
        open({.name = named_by_module ? path : name, .kind = kind_of(module, value)});
      }
      add(name, value.numel());
    }
    for (const auto& child : module.named_children())
      visit(*child.value(), path.empty() ? child.key() : path + "." + child.key());
  }

  LayerRegistry finish(const std::string& module_name) {
    require(!layers_.empty() || !leading_.parameters.empty(), "discover_layers", "module '",
            module_name, "' has no parameters to train; register them with register_module or ",
            "register_parameter");
    if (layers_.empty()) open({.name = leading_.parameters.front()});
    LayerInfo& first = layers_.front();
    first.parameters.insert(first.parameters.end(), leading_.parameters.begin(),
                            leading_.parameters.end());
    first.parameter_count += leading_.parameter_count;
    LayerRegistry registry;
    for (LayerInfo& layer : layers_) registry.add(std::move(layer));
    return registry;
  }

 private:
  void open(LayerInfo layer) { layers_.push_back(std::move(layer)); }

  void add(const std::string& name, std::int64_t count) {
    LayerInfo& layer = layers_.empty() ? leading_ : layers_.back();
    layer.parameters.push_back(name);
    layer.parameter_count += count;
  }

  std::vector<LayerInfo> layers_;
  LayerInfo leading_;  // parameters before the first weight
  std::unordered_set<const c10::TensorImpl*> seen_;
};

}  // namespace

LayerRegistry discover_layers(const torch::nn::Module& module) {
  LayerWalk walk;
  walk.visit(module, "");
  return walk.finish(module.name());
}

}  // namespace triaccel
