#include "triaccel/saved/saved_profile.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "triaccel/core/saved_bytes.h"
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/ops/tensors/autograd_node.h"
#include "triaccel/saved/derived_tensor.h"
#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {
namespace {

using Name = std::string_view;

bool among(Name name, std::span<const Name> names) { return std::ranges::count(names, name) > 0; }

constexpr Name kLayerNorm = "NativeLayerNorm";
constexpr Name kFusedNorm = "triaccel::NormFusion";
constexpr Name kNorms[] = {"NativeBatchNorm", "CudnnBatchNorm", kLayerNorm, "NativeGroupNorm",
                           kFusedNorm};
constexpr Name kRectifier =
    "Relu";  // a threshold's node saves its input, and may let others through
constexpr Name kPoolsOfSizes[] = {"MaxPool2DWithIndices", "AvgPool2D", "AdaptiveAvgPool2D"};
constexpr Name kProducts[] = {"Convolution", "Addmm",
                              "Mm",          "Linear",
                              "Mul",         "triaccel::LayerNode",
                              "Mv",          "triaccel::GatedChannels"};
constexpr Name kActivations[] = {"Silu",     "Gelu",      "Hardswish", "Hardsigmoid",
                                 "Hardtanh", "Sigmoid",   "Softplus",  "Tanh",
                                 "Elu",      "LeakyRelu", "Mish"};
constexpr Name kLosses[] = {"LogSoftmax",
                            "NllLoss",
                            "NllLoss2D",
                            "MseLoss",
                            "SmoothL1Loss",
                            "BinaryCrossEntropy",
                            "BinaryCrossEntropyWithLogits"};

constexpr Name kAttention[] = {"Softmax", "SafeSoftmax", "Bmm", "Baddbmm"};

/// Operators that leave each element where it was, or choose among them.
constexpr Name kMoves[] = {"View",
                           "UnsafeView",
                           "ReshapeAlias",
                           "Transpose",
                           "Permute",
                           "Slice",
                           "Squeeze",
                           "Unsqueeze",
                           "Clone",
                           "ToCopy",
                           "MaxPool2DWithIndices",
                           "triaccel::PooledMaxima"};

constexpr std::int64_t kLongestVector = 4096;

bool is_float(ElementType type) {
  return type == ElementType::F32 || type == ElementType::BF16 || type == ElementType::F16;
}

/// One vector per sample: as a rule behind the last pooling, and little compared with the rest.
bool is_vector(const SavedFacts& facts) {
  return facts.per_sample && facts.sizes.size() <= 2 && facts.sizes.front() == 1 &&
         facts.sizes.back() <= kLongestVector;
}

bool is_attention(Name consumer) {
  return among(consumer, kAttention) || consumer.starts_with("ScaledDotProduct");
}

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

/// Whether a norm's node computes SiLU, too, which would save its own input. What other fused
/// operators would save is not counted: single pixels of squeeze-and-excitation, the output of a
/// ReLU that is only pooled, indices of max pooling.
bool fuses_silu(const torch::autograd::Node& consumer) {
  const auto* const norm = dynamic_cast<const HasNormHistory*>(&consumer);
  return norm != nullptr && norm->norm_history().activation == Activation::Silu;
}

/// Numbers of the entries that each node saved, without constants.
using NodeEntries = std::unordered_map<std::uint64_t, std::vector<std::size_t>>;

/// The ReLU mask that the node of a tensor made of it, where it is one for whoever reads the
/// tensor, whatever the batch. -1: none.
std::int64_t mask_by(const torch::autograd::Node* producer, const SavedEntry& tensor,
                     const std::vector<SavedEntry>& entries, const NodeEntries& saved_by) {
  if (producer == nullptr || !is_float(tensor.type)) return -1;
  const auto saved = saved_by.find(producer->sequence_nr());
  if (saved == saved_by.end()) return -1;
  const auto elements = [](const SavedEntry& entry) { return c10::multiply_integers(entry.sizes); };
  for (const std::size_t number : saved->second) {
    const SavedEntry& mask = entries[number];
    if (mask.kind == SavedClass::ReluMask && mask.per_sample == tensor.per_sample &&
        is_mask_of(elements(mask), elements(tensor)))
      return static_cast<std::int64_t>(number);
  }
  return -1;
}

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

bool is_rectified(std::string_view producer) {
  while (!producer.empty()) {
    const std::size_t end = producer.find(" < ");
    const std::string_view nearest = producer.substr(0, end);
    if (nearest == kRectifier) return true;
    if (!among(nearest, kMoves) || end == std::string_view::npos) return false;
    producer.remove_prefix(end + 3);
  }
  return false;
}

SavedClass saved_class(const SavedFacts& facts) {
  if (facts.constant) return SavedClass::Constant;
  if (facts.type == ElementType::Bool) return SavedClass::Sign;
  if (facts.type == ElementType::U8 && facts.consumer == kFusedNorm) return SavedClass::ReluMask;
  const bool is_norm = among(facts.consumer, kNorms);
  // Ours save inputs, another norm's too that is added in the same kernel, and ReLU masks.
  const bool is_own = facts.consumer.starts_with("triaccel::");
  if (is_norm && !is_own && facts.place > 0) return SavedClass::Statistics;
  if (facts.type == ElementType::I64 && facts.consumer == "MaxPool2DWithIndices")
    return SavedClass::Window;
  if (!is_float(facts.type)) return SavedClass::Other;
  if (facts.consumer == kRectifier) return SavedClass::Sign;
  if (among(facts.consumer, kPoolsOfSizes)) return SavedClass::Sizes;
  if (among(facts.consumer, kLosses) || is_vector(facts)) return SavedClass::Vector;
  if (is_norm) return SavedClass::NormInput;
  if (facts.consumer.starts_with("ScaledDotProduct") &&
      (facts.sizes.size() < 4 || facts.sizes.back() == 1))
    return SavedClass::Statistics;
  if (is_attention(facts.consumer)) return SavedClass::Attention;
  if (facts.two_valued) return SavedClass::Sign;
  if (among(facts.consumer, kProducts))
    return facts.rectified || is_rectified(facts.producer) ? SavedClass::Positive
                                                           : SavedClass::Factor;
  if (among(facts.consumer, kActivations)) return SavedClass::Nonlinear;
  return SavedClass::Other;
}

struct SavedProfile::Saved {
  std::uint64_t node;
  NodePtr producer;
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
    entry.by_rows = entry.kind == SavedClass::NormInput && entry.consumer == kLayerNorm &&
                    entry.sizes.size() > 1;
    if (entry.kind == SavedClass::Window) entry.windows = pooling_windows(*consumer->second);
    if (!saved.constant) {
      find_source(entry, derivation_chain(saved.producer.get()), census.entries, saved_by);
      entry.mask = mask_by(saved.producer.get(), entry, census.entries, saved_by);
      siblings.push_back(census.entries.size());
    }
    const auto first = static_cast<std::size_t>(entry.same_as);
    census.entries.push_back(std::move(entry));
    const bool is_input = siblings.size() == 1 && !saved.constant;
    if (is_input && consumer != nodes.end() && fuses_silu(*consumer->second))
      census.entries[first].replaces_activation_input = true;
  }
  return census;
}

}  // namespace triaccel
