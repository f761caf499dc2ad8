#include "triaccel/saved/saved_profile.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <unordered_map>
#include <utility>

#include "triaccel/saved/derived_tensor.h"
#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/saved_classes.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {
namespace {

constexpr int kProducersNamed = 4;

ElementType element_type_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return ElementType::Bool;
    case at::kByte:
      return ElementType::U8;
    case at::kHalf:
      return ElementType::F16;
    case at::kBFloat16:
      return ElementType::BF16;
    case at::kDouble:
      return ElementType::F64;
    case at::kFloat:
      return ElementType::F32;
    default:
      return ElementType::I64;
  }
}

/// As a dropout's factors have. Waits for the device.
bool has_one_value_besides_zero(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return false;
  const at::Tensor largest = tensor.max();
  return largest.item<double>() > 0 &&
         tensor.eq(0).logical_or_(tensor.eq(largest)).all().item<bool>();
}

/// Our own nodes fuse operators that their names do not tell.
bool is_fused(const torch::autograd::Node& node) { return node.name().starts_with("triaccel::"); }

/// Waits for the device.
bool looks_rectified(const at::Tensor& tensor) {
  constexpr double fewest_zeros = 0.05;  // share
  if (!tensor.is_floating_point() || tensor.numel() == 0) return false;
  const auto count = static_cast<double>(tensor.numel());
  return tensor.min().item<double>() == 0 &&
         static_cast<double>(tensor.eq(0).sum().item<std::int64_t>()) > fewest_zeros * count;
}

/// Statistics of a batch norm have a size per channel, which the batch may divide by chance.
bool grows_with_batch(const SavedEntry& entry, std::int64_t samples) {
  if (entry.sizes.empty() || entry.sizes[0] % samples != 0) return false;
  return entry.sizes.size() > 1 || !entry.consumer.ends_with("BatchNorm");
}

/// Numbers of the entries that each node saved, without constants.
using NodeEntries = std::unordered_map<std::uint64_t, std::vector<std::size_t>>;

/// What the tensor of `entry` can be computed from, if its history saved it.
void find_source(SavedEntry& entry, const DerivationChain& chain,
                 const std::vector<SavedEntry>& entries, const NodeEntries& saved_by) {
  if (chain.source == nullptr) return;
  const auto saved = saved_by.find(chain.source->sequence_nr());
  if (saved == saved_by.end() || saved->second.empty()) return;
  const std::vector<std::size_t>& numbers = saved->second;
  const bool is_product = chain.map == DerivedMap::Product;
  if (is_product && numbers.size() != 2) return;
  const SavedEntry& first = entries[numbers.front()];
  const SavedEntry& source =
      is_product && first.bytes != entry.bytes ? entries[numbers.back()] : first;
  if (source.bytes != entry.bytes || source.same_as == entry.same_as) return;
  const bool goes_on = is_product && source.derivation != Derivation::None;
  entry.derivation = goes_on ? source.derivation : chain.derivation;
  entry.source = goes_on ? source.source : source.same_as;
}

}  // namespace

struct SavedProfile::Saved {
  std::uint64_t node;
  std::shared_ptr<torch::autograd::Node> producer;
  bool constant;
  bool two_valued, rectified;
  SavedEntry entry;
};

SavedProfile::SavedProfile(std::vector<at::Tensor> constants) : constants_(std::move(constants)) {
  constants_.locate();
}
SavedProfile::~SavedProfile() = default;

std::function<at::Tensor()> SavedProfile::keep(const at::Tensor& tensor) {
  const auto number = static_cast<std::int64_t>(saved_.size());
  Saved saved = {
      .node = node_under_construction(),
      .producer = tensor.grad_fn(),
      .constant = constants_.contain(tensor),
      .two_valued = !tensor.grad_fn() && has_one_value_besides_zero(tensor),
      .rectified = tensor.grad_fn() && is_fused(*tensor.grad_fn()) && looks_rectified(tensor),
      .entry = {}};
  saved.entry.type = element_type_of(tensor.scalar_type());
  saved.entry.sizes = tensor.sizes().vec();
  saved.entry.bytes = static_cast<std::int64_t>(tensor.numel() * tensor.element_size());
  saved.entry.same_as = number;
  saved.entry.parameter = constants_.number_of(tensor);
  if (has_identity(tensor)) {
    if (const std::int64_t* first = known_.find(tensor))
      saved.entry.same_as = *first;
    else
      known_.insert(tensor, number);
  }
  saved_.push_back(std::move(saved));
  return [raw = RawTensor(tensor)] { return raw.value(); };
}

SavedCensus SavedProfile::census(const at::Tensor& result, std::int64_t samples) const {
  const auto nodes = nodes_behind(result);
  SavedCensus census{.samples = samples};
  NodeEntries saved_by;
  std::unordered_map<std::uint64_t, std::int64_t> parameters;  // the last one a node saved
  for (const Saved& saved : saved_)
    if (saved.entry.parameter >= 0) parameters[saved.node] = saved.entry.parameter;
  for (const Saved& saved : saved_) {
    SavedEntry entry = saved.entry;
    if (const auto found = parameters.find(saved.node); found != parameters.end())
      entry.parameter = found->second;
    const auto consumer = nodes.find(saved.node);
    if (consumer != nodes.end()) entry.consumer = operation_name(*consumer->second);
    entry.producer = operations_behind(saved.producer.get(), kProducersNamed);
    entry.per_sample = !saved.constant && grows_with_batch(entry, samples);
    if (entry.per_sample) entry.sizes[0] /= samples;
    std::vector<std::size_t>& siblings = saved_by[saved.node];
    entry.kind = saved_class({.consumer = entry.consumer,
                              .producer = entry.producer,
                              .constant = saved.constant,
                              .two_valued = saved.two_valued,
                              .rectified = saved.rectified,
                              .place = static_cast<int>(siblings.size()),
                              .type = entry.type,
                              .sizes = entry.sizes,
                              .per_sample = entry.per_sample});
    if (!saved.constant) siblings.push_back(census.entries.size());
    if (entry.kind == SavedClass::Window) entry.windows = pooling_windows(*consumer->second);
    if (!saved.constant)
      find_source(entry, derivation_chain(saved.producer.get()), census.entries, saved_by);
    census.entries.push_back(std::move(entry));
  }
  return census;
}

}  // namespace triaccel
