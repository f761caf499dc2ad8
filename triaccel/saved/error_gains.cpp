#include "triaccel/saved/error_gains.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {
namespace {

at::Tensor square_of(const at::Tensor& tensor) {
  return tensor.to(at::kFloat).square().sum(at::kDouble);
}

class Listener final : public torch::autograd::FunctionPreHook {
 public:
  explicit Listener(std::function<void(const at::Tensor&)> tell) : tell_(std::move(tell)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    const at::NoGradGuard no_grad;
    if (gradients.front().defined()) tell_(gradients.front());
    return gradients;
  }

 private:
  std::function<void(const at::Tensor&)> tell_;
};

}  // namespace

/// One tensor and one weight that are multiplied.
struct ErrorGains::Watched {
  std::int64_t entry;
  at::Tensor weight;
  at::Tensor gain = {};  // once backward has come past
};

ErrorGains::ErrorGains(const SavedCensus& census, std::vector<at::Tensor> constants,
                       WeightOf weight_of)
    : census_(census), constants_(std::move(constants)), weight_of_(std::move(weight_of)) {}
ErrorGains::~ErrorGains() = default;

std::function<at::Tensor()> ErrorGains::keep(const at::Tensor& tensor) {
  nodes_.push_back(node_under_construction());
  return [raw = RawTensor(tensor)] { return raw.value(); };
}

at::Tensor ErrorGains::weight_for(const SavedEntry& entry,
                                  const torch::autograd::Node& node) const {
  const auto number = static_cast<std::size_t>(entry.parameter);
  return entry.parameter >= 0 ? constants_.at(number) : weight_of_(node);
}

void ErrorGains::watch(const at::Tensor& result) {
  const auto nodes = nodes_behind(result);
  for (std::size_t i = 0; i < std::min(nodes_.size(), census_.entries.size()); ++i) {
    const SavedEntry& entry = census_.entries[i];
    const auto node = nodes.find(nodes_[i]);
    const bool linear = entry.kind == SavedClass::Positive || entry.kind == SavedClass::Factor;
    if (!linear || node == nodes.end()) continue;
    const at::Tensor weight = weight_for(entry, *node->second);
    if (!weight.defined() || !weight.requires_grad()) continue;
    const auto watched = std::make_shared<Watched>(Watched{static_cast<std::int64_t>(i), weight});
    watched_.push_back(watched);
    // An element's error meets, in every weight of an output channel that reads it, that channel's
    // gradient: over all elements and weights, the gradient's square times weights per channel.
    node->second->add_pre_hook(std::make_unique<Listener>([watched](const at::Tensor& gradient) {
      const at::Tensor& w = watched->weight;
      const std::int64_t channels = w.dim() > 2 ? gradient.size(1) : gradient.size(-1);
      watched->gain =
          square_of(gradient) * (static_cast<double>(w.numel()) / static_cast<double>(channels));
    }));
  }
}

std::vector<ErrorGain> ErrorGains::read() const {
  std::vector<at::Tensor> numbers;
  std::vector<ErrorGain> gains;
  for (const auto& watched : watched_) {
    if (!watched->gain.defined() || !watched->weight.grad().defined()) continue;
    gains.push_back({.entry = watched->entry});
    numbers.push_back(square_of(watched->weight.grad()));
    numbers.push_back(watched->gain);
  }
  if (gains.empty()) return gains;
  const at::Tensor all = at::stack(numbers).to(at::kCPU);
  const auto* values = all.const_data_ptr<double>();
  for (ErrorGain& gain : gains) {
    gain.weight_gradient_square = *values++;
    gain.gain = *values++;
  }
  return gains;
}

}  // namespace triaccel
