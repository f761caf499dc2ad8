#include "triaccel/step/saved_probe.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/layers/execution/layer_nodes.h"
#include "triaccel/ops/loss_data/cross_entropy.h"
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/saved_profile.h"
#include "triaccel/saved/saved_tensor_engine.h"
#include "triaccel/signals/probe_pass.h"

namespace triaccel {
namespace {

/// Hands every tensor on to `keeper` and records which node saved it: which layers read what a pass
/// saves. A reader belongs to the layer whose parameter it saves, too, or is a node of the layer;
/// one that knows no parameter, or only a copy in another type, belongs to none.
class SavedReaders final : public SavedTensorKeeper {
 public:
  SavedReaders(SavedTensorKeeper& keeper, const std::vector<ParameterRef>& parameters)
      : keeper_(keeper) {
    for (const ParameterRef& parameter : parameters)
      if (parameter.tensor.nbytes() > 0)
        parameters_[address_of(parameter.tensor)] = {parameter.tensor.nbytes(), parameter.layer};
  }

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override {
    nodes_.push_back(node_under_construction());
    const std::int64_t layer = layer_of(tensor);
    if (layer >= 0) node_layers_[nodes_.back()] = layer;
    return keeper_.keep(tensor);
  }

  /// Writes the readers' layers into the census of the same pass, whose graph must still be there.
  void put_layers(SavedCensus& census, const at::Tensor& result) const {
    ensure(census.entries.size() == nodes_.size(), "the census is of the pass that was watched");
    const auto nodes = nodes_behind(result);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto saved = node_layers_.find(nodes_[i]);
      const auto node = nodes.find(nodes_[i]);
      census.entries[i].layer = saved != node_layers_.end() ? saved->second
                                : node != nodes.end()       ? layer_of(*node->second)
                                                            : -1;
    }
  }

 private:
  struct Parameter {
    std::size_t bytes;
    std::int64_t layer;
  };

  static std::uintptr_t address_of(const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  }

  /// By address, not by storage: parameters may lie in one buffer. -1: no parameter of the network.
  std::int64_t layer_of(const at::Tensor& tensor) const {
    if (!tensor.defined() || !tensor.has_storage()) return -1;
    const std::uintptr_t address = address_of(tensor);
    auto found = parameters_.upper_bound(address);
    if (found == parameters_.begin()) return -1;
    --found;
    return address < found->first + found->second.bytes ? found->second.layer : -1;
  }

  /// Of a node that saves no parameter as autograd sees it.
  std::int64_t layer_of(const torch::autograd::Node& node) const {
    if (const auto* norm = dynamic_cast<const HasNormHistory*>(&node))
      return layer_of(norm->norm_history().weight);
    return layer_of(weight_of(node));
  }

  SavedTensorKeeper& keeper_;
  std::map<std::uintptr_t, Parameter> parameters_;               // by their first byte
  std::vector<std::uint64_t> nodes_;                             // by entry
  std::unordered_map<std::uint64_t, std::int64_t> node_layers_;  // of those that saved a parameter
};

constexpr std::uint64_t kProbeSeed = 0x70726f6265;  // no step has the same offsets

/// While it lives parameters begin without gradients; those that they had, as a loop that
/// accumulates has them, are put back at its end, also when unwinding.
class [[nodiscard]] GradientsAside {
 public:
  explicit GradientsAside(const std::vector<ParameterRef>& parameters) : parameters_(parameters) {
    for (const ParameterRef& parameter : parameters_)
      held_.push_back(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
  }
  ~GradientsAside() {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].tensor.mutable_grad() = std::move(held_[i]);
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

 private:
  const std::vector<ParameterRef>& parameters_;
  std::vector<at::Tensor> held_;
};

/// Calls visit(first, rows) for parts of a tensor along its first dimension that are small, so that
/// temporaries of them are.
template <typename Visit>
void in_parts(const at::Tensor& tensor, const Visit& visit) {
  constexpr std::int64_t elements = 1 << 18;
  const std::int64_t rows = tensor.size(0);
  const std::int64_t at_once = std::max<std::int64_t>(1, elements * rows / tensor.numel());
  for (std::int64_t first = 0; first < rows; first += at_once)
    visit(first, std::min(at_once, rows - first));
}

/// |a * x - b * y|^2 of each of two lists of tensors, 0 where either is undefined; y may be in host
/// memory.
std::vector<double> squared_distances(const std::vector<at::Tensor>& x, double a,
                                      const std::vector<at::Tensor>& y, double b) {
  std::vector<at::Tensor> squares;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!x[i].defined() || !y[i].defined() || x[i].numel() == 0) continue;
    const at::Tensor of_x = at::atleast_1d(x[i]), of_y = at::atleast_1d(y[i]);
    in_parts(of_x, [&](std::int64_t first, std::int64_t rows) {
      const at::Tensor there = of_y.narrow(0, first, rows).to(of_x.device());
      squares.push_back((of_x.narrow(0, first, rows) * a - there * b).square_().sum(at::kDouble));
      places.push_back(i);
    });
  }
  std::vector<double> distances(x.size(), 0.0);
  if (squares.empty()) return distances;
  const at::Tensor on_host = at::stack(squares).cpu();
  for (std::size_t i = 0; i < places.size(); ++i)
    distances[places[i]] += on_host.const_data_ptr<double>()[i];
  return distances;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Out of the way of the next pass. From a GPU into pinned memory, since other memory is several
/// times slower; not large gradients, since libtorch keeps what was pinned.
std::vector<at::Tensor> in_host_memory(std::vector<at::Tensor> tensors) {
  constexpr std::size_t most_pinned = std::size_t{1} << 30;
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.defined() ? tensor.nbytes() : 0;
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.is_cpu()) continue;
    const auto options = tensor.options().device(at::kCPU).pinned_memory(bytes <= most_pinned);
    at::Tensor copy = at::empty_like(tensor, options, at::MemoryFormat::Preserve);
    copy.copy_(tensor);
    tensor = std::move(copy);
  }
  return tensors;
}

}  // namespace

SavedProbe::SavedProbe(const StepNetwork& network, const ProbeRules& rules, StepBatch& batch)
    : network_(network),
      rules_(rules),
      batch_(batch),
      device_(network.parameters.front().tensor.device()) {
  batch_.prepare();
}

void SavedProbe::pass(SavedTensorKeeper* keeper, std::int64_t samples,
                      const std::function<void(const PassResult&)>& then) const {
  const UntouchedState state(network_.buffers, device_);
  const GradientsAside aside(network_.parameters);
  const c10::AutoGradMode with_graph(true);
  const at::Tensor ids = batch_.ids();
  const auto compute = [&](const std::function<at::Tensor()>& forward) {
    std::optional<SavedTensorScope> scope;
    if (keeper != nullptr) scope.emplace(*keeper);
    return forward_pass(forward, device_.type(), rules_.forward);
  };
  const PassResult result = batch_.pass({.count = samples,
                                         .samples = batch_.samples(),
                                         .ids = ids.numel() > 0 ? ids.narrow(0, 0, samples) : ids,
                                         .score = make_running_score(device_),
                                         .loss_scale = rules_.loss_scale,
                                         .compute = compute});
  const at::NoGradGuard no_grad;
  then(result);
}

SavedProbe::Gradients SavedProbe::first_half(const PassResult& whole) const {
  const std::int64_t all = batch_.samples(), half = all / 2;
  if (whole.gradient.dim() > 0 && whole.gradient.size(0) % all == 0) {
    whole.gradient.slice(0, whole.gradient.size(0) / all * half).zero_();
    whole.output.backward(whole.gradient);
    return take_gradients();
  }
  Gradients gradients;
  pass(nullptr, half, [&](const PassResult& result) {
    result.output.backward(result.gradient);
    gradients = take_gradients();
  });
  return gradients;
}

SavedProbe::Gradients SavedProbe::take_gradients() const {
  Gradients gradients;
  for (const ParameterRef& parameter : network_.parameters) {
    gradients.push_back(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
    if (gradients.back().defined()) gradients.back() = gradients.back().to(at::kFloat);
  }
  return gradients;
}

SavedCensus SavedProbe::census(std::vector<SavedSample>& samples) const {
  SavedProfile profile(constants_of(network_));
  SavedSampler sampler(profile);
  SavedReaders readers(sampler, network_.parameters);
  SavedCensus census;
  pass(&readers, batch_.samples(), [&](const PassResult& result) {
    census = profile.census(result.output, batch_.samples());
    readers.put_layers(census, result.output);
  });
  samples = sampler.take_samples();
  return census;
}

std::vector<ErrorGain> SavedProbe::error_gains(const SavedCensus& census) const {
  ErrorGains gains(census, constants_of(network_), weight_of);
  std::vector<ErrorGain> measured;
  pass(&gains, batch_.samples(), [&](const PassResult& result) {
    gains.watch(result.output);
    result.output.backward(result.gradient);
    measured = gains.read();
  });
  return measured;
}

CompressionNoise SavedProbe::compression_noise(const SavedCensus& census,
                                               const std::vector<SavedPlan>& plans,
                                               const SavedStoreOptions& options) const {
  const std::int64_t all = batch_.samples(), half = all / 2;
  Gradients exact;
  std::vector<double> squares;
  CompressionNoise noise;
  pass(nullptr, all, [&](const PassResult& result) {
    result.output.backward(result.gradient, /*retain_graph=*/true);
    exact = take_gradients();
    squares = squared_distances(exact, 1, exact, 0);
    exact = in_host_memory(std::move(exact));
    if (half == 0) return;
    // g = g_a + g_b are sums over a and b samples, divided by all of them. The means of the two
    // differ by (1/a + 1/b) times a sample's variance; the mean of all has 1/(a + b) of it.
    const auto a = static_cast<double>(half), b = static_cast<double>(all - half);
    noise.batch_variance =
        a * b * sum_of(squared_distances(first_half(result), 1 / a + 1 / b, exact, 1 / b));
  });
  SavedStoreOptions other = options;
  other.seed ^= kProbeSeed;
  SavedStore store(other, constants_of(network_), device_);
  store.follow(census, plans);
  Gradients first;
  std::vector<double> variances;
  double error = 0;
  for (const bool again : {false, true}) {
    Gradients compressed;
    store.begin_pass();
    pass(&store, all, [&](const PassResult& result) {
      result.output.backward(result.gradient);
      compressed = take_gradients();
    });
    store.end_pass();
    error += sum_of(squared_distances(compressed, 1, exact, 1)) / 2;
    if (again)
      variances = squared_distances(compressed, 1, first, 1);
    else
      first = in_host_memory(std::move(compressed));
  }
  noise.layers.resize(static_cast<std::size_t>(network_.layer_count));
  for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
    LayerCompressionNoise& layer =
        noise.layers.at(static_cast<std::size_t>(network_.parameters[i].layer));
    layer.variance += variances[i] / 2;
    layer.square += squares[i];
  }
  noise.compression_variance = sum_of(variances) / 2;
  noise.error = error / sum_of(squares);
  return noise;
}

std::vector<double> SavedProbe::gradient_errors(const SavedCensus& census,
                                                const std::vector<std::vector<SavedPlan>>& plans,
                                                const SavedStoreOptions& options) const {
  Gradients exact;
  double square = 0;
  pass(nullptr, batch_.samples(), [&](const PassResult& result) {
    result.output.backward(result.gradient);
    exact = take_gradients();
    square = sum_of(squared_distances(exact, 1, exact, 0));
    exact = in_host_memory(std::move(exact));
  });
  SavedStoreOptions other = options;
  other.seed ^= kProbeSeed;
  SavedStore store(other, constants_of(network_), device_);
  std::vector<double> errors;
  for (const std::vector<SavedPlan>& one : plans) {
    store.follow(census, one);
    store.begin_pass();
    pass(&store, batch_.samples(), [&](const PassResult& result) {
      result.output.backward(result.gradient);
      errors.push_back(sum_of(squared_distances(take_gradients(), 1, exact, 1)) / square);
    });
    store.end_pass();
  }
  return errors;
}

}  // namespace triaccel
