#include "triaccel/saved/saved_store.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/core/frequency_bands.h"
#include "triaccel/core/saved_bytes.h"
#include "triaccel/saved/graph_walk.h"
#include "triaccel/saved/saved_record.h"

namespace triaccel {
namespace {

/// What is not raw has values of its own, through which no second derivative leads.
void refuse_second_derivative() {
  require(!at::GradMode::is_enabled(), "backward",
          "create_graph asks to differentiate through tensors that are compressed; run the "
          "forward pass under SavedTensorPause");
}

bool is_codable(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf) return false;
  // An expanded tensor would grow.
  return tensor.storage().nbytes() >=
         static_cast<std::size_t>(tensor.numel() * tensor.element_size());
}

at::Tensor dense_of(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.numel() * tensor.element_size());
}

/// Whether the operator that made a tensor is the one a census names first.
bool made_by(const at::Tensor& tensor, std::string_view producer) {
  const auto node = tensor.grad_fn();
  if (!node) return producer.empty();
  return producer.substr(0, producer.find(" < ")) == operation_name(*node);
}

bool has_sizes(const at::Tensor& tensor, const SavedEntry& entry) {
  const at::IntArrayRef sizes = tensor.sizes(), planned = entry.sizes;
  if (sizes.size() != planned.size()) return false;
  if (sizes.empty()) return true;
  return sizes.slice(1) == planned.slice(1) && (entry.per_sample || sizes[0] == planned[0]);
}

}  // namespace

/// What is kept of one tensor.
struct SavedStore::Held {
  bool raw = false;
  std::weak_ptr<const SavedMask> mask = {};
  std::weak_ptr<const SavedRecord> values = {};
  SavedPlan plan = {};        // of the values
  SharedRecord pending = {};  // the values, until the first who reads them saves them
};

SavedStore::SavedStore(const SavedStoreOptions& options, std::vector<at::Tensor> constants,
                       c10::Device device)
    : options_(options),
      constants_(std::move(constants)),
      passes_(at::zeros({1}, at::TensorOptions(at::kLong).device(device))),
      not_finite_(at::zeros({1}, at::TensorOptions(at::kInt).device(device))),
      passes_before_(at::zeros_like(passes_)),
      not_finite_before_(at::zeros_like(not_finite_)),
      decoded_(std::make_shared<DecodedTensor>()),
      sources_(decoded_),
      arena_(device),
      host_(device) {}
SavedStore::~SavedStore() = default;

void SavedStore::follow(SavedCensus census, std::vector<SavedPlan> plans) {
  require(census.entries.size() == plans.size(), "SavedStore::follow", "the census has ",
          census.entries.size(), " entries, and there are ", plans.size(), " plans");
  census_ = std::move(census);
  plans_ = std::move(plans);
  derives_ = std::ranges::find(plans_, SavedCodec::Derived, &SavedPlan::codec) != plans_.end();
  needs_profile_ = false;
}

void SavedStore::begin_pass(bool in_step) {
  forget_pass();
  const at::NoGradGuard no_grad;
  counts_ = {};
  decoded_->reset_counts();
  arena_.begin_pass();
  host_.begin_pass(in_step);
  constants_.locate();
  passes_.add_(1);
  pass_ = passes_.clone();
}

void SavedStore::end_pass() {
  if (next_ > 0 && next_ != plans_.size()) needs_profile_ = true;
  forget_pass();
  host_.end_pass();
}

void SavedStore::abandon_pass() {
  forget_pass();
  host_.abandon_pass();
}

void SavedStore::take_counters() {
  const at::NoGradGuard no_grad;
  passes_before_.copy_(passes_);
  not_finite_before_.copy_(not_finite_);
}

void SavedStore::put_back_counters() {
  const at::NoGradGuard no_grad;
  passes_.copy_(passes_before_);
  not_finite_.copy_(not_finite_before_);
}

void SavedStore::forget_pass() {
  next_ = 0;
  node_before_ = 0;
  held_.clear();
  relu_masks_.clear();
  sources_.clear();
  decoded_->forget();
  pass_.reset();
}

SavedCounts SavedStore::counts() const {
  SavedCounts counts = counts_;
  const DecodedTensor::Counts decoded = decoded_->counts();
  counts.decodes = decoded.decodes;
  counts.shared_decodes = decoded.shared;
  counts.allocations = arena_.allocations();
  counts.allocated_bytes = arena_.allocated_bytes();
  return counts;
}

void SavedStore::count(SavedCodec codec, std::int64_t bytes) {
  counts_.held_bytes[static_cast<std::size_t>(codec)] += bytes;
}

EncodeBuffer SavedStore::room() {
  return [this](std::int64_t count, at::ScalarType type) { return arena_.room(count, type); };
}

std::function<at::Tensor()> SavedStore::keep(const at::Tensor& tensor) {
  ensure(pass_.defined(), "begin_pass() must be called before a forward pass");
  const std::size_t number = next_++;
  if (!has_identity(tensor) || constants_.contain(tensor))
    return [raw = RawTensor(tensor)] { return raw.value(); };
  const bool planned = is_planned(number, tensor);
  if (!planned) {
    ++counts_.mismatches;
    needs_profile_ = true;
  }
  static const SavedEntry unplanned;
  const SavedEntry& entry = planned ? census_.entries[number] : unplanned;
  Held& held = held_for(tensor, entry);
  if (derives_ && entry.kind == SavedClass::Statistics)
    sources_.add_statistic(node_under_construction(), tensor);
  GiveBack give_back;
  if (entry.kind == SavedClass::ReluMask && plans_[number].codec == SavedCodec::Raw)
    give_back = keep_relu_mask(tensor);
  else if (planned && plans_[number].codec != SavedCodec::Raw) {
    Held apart;
    give_back = keep_coded(tensor, number, options_.share ? held : apart);
    // On other devices nobody checks whether a mask of floats has but two values. What host memory
    // is not worth is no mismatch either.
    const SavedCodec codec = plans_[number].codec;
    const bool may_stay =
        (codec == SavedCodec::Mask && !tensor.is_cpu()) || codec == SavedCodec::Host;
    if (!give_back && !may_stay) ++counts_.mismatches;
  }
  if (!give_back) give_back = keep_raw(tensor, held);
  sizes_before_ = tensor.sizes().vec();
  node_before_ = node_under_construction();
  return give_back;
}

bool SavedStore::is_planned(std::size_t number, const at::Tensor& tensor) const {
  return number < plans_.size() && has_sizes(tensor, census_.entries[number]) &&
         made_by(tensor, census_.entries[number].producer);
}

SavedStore::Held& SavedStore::held_for(const at::Tensor& tensor, const SavedEntry& entry) {
  const std::int64_t bytes = bytes_of(tensor);
  ++counts_.saved;
  counts_.passed_bytes += bytes;
  Held* known = held_.find(tensor);
  if (known == nullptr) {
    known = &held_.insert(tensor, {.mask = relu_mask_of(tensor)});
    counts_.unique_bytes += bytes;
    const std::int64_t fp32_bytes = tensor.is_floating_point() ? tensor.numel() * 4 : bytes;
    if (entry.kind != SavedClass::ReluMask)  // as SavedStatistics::fp32_bytes
      counts_.fp32_bytes += entry.replaces_activation_input ? 2 * fp32_bytes : fp32_bytes;
  }
  return *known;
}

SavedStore::GiveBack SavedStore::keep_raw(const at::Tensor& tensor, Held& held) {
  if (!std::exchange(held.raw, true)) count(SavedCodec::Raw, bytes_of(tensor));
  if (!derives_) return [raw = RawTensor(tensor)] { return raw.value(); };
  const auto record = std::make_shared<SavedRecord>(
      SavedRecord{.bytes = 0, .decode = [raw = RawTensor(tensor)] { return raw.value(); }});
  note_source(record, tensor);
  return [record] { return record->decode(); };
}

/// What else must know which elements are zero reads the same bits.
SavedStore::GiveBack SavedStore::keep_relu_mask(const at::Tensor& bits) {
  count(SavedCodec::Raw, bytes_of(bits));
  const auto kept = [raw = RawTensor(bits)] { return raw.value(); };
  if (!options_.share || !bits.is_contiguous() || bits.numel() % 4 != 0) return kept;
  const auto mask = std::make_shared<const SavedMask>(
      SavedMask{.words = bits.tensor_data().view({-1}).view(at::kInt)});
  relu_masks_[node_under_construction()] = mask;
  return [kept, mask] { return kept(); };
}

/// The one that the node of a tensor made of it, if it lies as masks of codecs do; null: none.
SharedMask SavedStore::relu_mask_of(const at::Tensor& tensor) const {
  const auto node = tensor.grad_fn();
  if (!node || !tensor.is_non_overlapping_and_dense()) return nullptr;
  const auto found = relu_masks_.find(node->sequence_nr());
  SharedMask mask = found == relu_masks_.end() ? nullptr : found->second.lock();
  return mask && is_mask_of(bytes_of(mask->words), tensor.numel()) ? mask : nullptr;
}

void SavedStore::note_source(const SharedRecord& record, const at::Tensor& decoded_like) {
  if (derives_) sources_.add(node_under_construction(), record, TensorLayout(decoded_like));
}

SavedStore::GiveBack SavedStore::keep_coded(const at::Tensor& tensor, std::size_t number,
                                            Held& held) {
  const SavedEntry& entry = census_.entries[number];
  const bool on_host = plans_[number].codec == SavedCodec::Host;
  if (on_host && bytes_of(tensor) < kLeastHostBytes) return {};
  if (entry.kind == SavedClass::Sizes)
    return [layout = TensorLayout(tensor)] {
      refuse_second_derivative();
      return layout.stand_in();
    };
  if (entry.kind == SavedClass::Sign) {
    GiveBack mask = keep_mask(tensor, number, held);
    if (mask || !on_host) return mask;
  }
  if (on_host) return keep_on_host(tensor, held);
  if (entry.kind == SavedClass::Window) return keep_windows(tensor, entry);
  return keeps_values(entry.kind) ? keep_values(tensor, plans_[number], held) : GiveBack();
}

SharedMask SavedStore::mask_of(const at::Tensor& dense, bool two_valued, Held& held) {
  SharedMask mask = held.mask.lock();
  if (mask && (mask->two_valued || !two_valued)) {
    ++counts_.shared;
    return mask;
  }
  mask = encode_saved_mask(dense, two_valued, room());
  note_mask(mask, held);
  return mask;
}

void SavedStore::note_mask(const SharedMask& mask, Held& held) {
  if (!mask) return;
  count(SavedCodec::Mask, bytes_of(mask->words));
  held.mask = mask;
}

SavedStore::GiveBack SavedStore::keep_mask(const at::Tensor& tensor, std::size_t number,
                                           Held& held) {
  if (!is_codable(tensor) && tensor.scalar_type() != at::kBool) return {};
  const SavedEntry& entry = census_.entries[number];
  const SavedPlan& plan = plans_[number];
  const at::Tensor dense = dense_of(tensor);
  const bool as_bool = entry.consumer == "Relu" || dense.scalar_type() == at::kBool;
  SharedMask mask;
  if (options_.share && plan.codec == SavedCodec::NonZeros && is_codable(tensor) &&
      held.values.expired() && held.mask.expired()) {
    // Another node will save the values: one pass over them makes both.
    SavedRecord made = encoded(dense, plan, held, mask);
    count(plan.codec, made.bytes);
    held.pending = std::make_shared<SavedRecord>(std::move(made));
    held.values = held.pending;
    held.plan = plan;
  } else {
    mask = mask_of(dense, /*two_valued=*/!as_bool, held);  // else backward reads the values
  }
  if (!mask) return {};
  return [mask, layout = TensorLayout(dense), as_bool] {
    refuse_second_derivative();
    return decode_saved_mask(*mask, layout, as_bool);
  };
}

SavedStore::GiveBack SavedStore::keep_windows(const at::Tensor& tensor, const SavedEntry& entry) {
  // The map that was pooled is what the same node saved just before.
  if (node_before_ != node_under_construction() || sizes_before_.size() < 2) return {};
  const at::Tensor dense = dense_of(tensor);
  SavedRecord record = encode_saved_windows(dense, entry.windows, sizes_before_.end()[-2],
                                            sizes_before_.end()[-1], room());
  if (!record.decode) return {};
  count(SavedCodec::Window, record.bytes);
  return [record = std::move(record)] {
    refuse_second_derivative();
    return record.decode();
  };
}

SavedStore::GiveBack SavedStore::keep_values(const at::Tensor& tensor, const SavedPlan& plan,
                                             Held& held) {
  if (!is_codable(tensor)) return {};
  const at::Tensor dense = dense_of(tensor);
  SharedRecord record = held.values.lock();
  if (record && held.plan == plan) {
    if (!std::exchange(held.pending, {})) ++counts_.shared;
  } else {
    const bool derives = plan.codec == SavedCodec::Derived;
    SharedMask mask = held.mask.lock();
    SavedRecord made = derives ? derived(tensor, held) : encoded(dense, plan, held, mask);
    if (!made.decode) return {};
    count(plan.codec, made.bytes);
    record = std::make_shared<SavedRecord>(std::move(made));
    held.values = record;
    held.plan = plan;
  }
  note_source(record, dense);
  return [record, decoded = decoded_, layout = TensorLayout(dense)] {
    refuse_second_derivative();
    return layout.of(decoded->of(record));
  };
}

SavedStore::GiveBack SavedStore::keep_on_host(const at::Tensor& tensor, Held& held) {
  // What has gaps or overlaps, as the parts of a joint projection, goes with its whole memory,
  // which the other parts share.
  constexpr std::int64_t most_per_part = 4;
  const bool dense = tensor.is_non_overlapping_and_dense();
  const auto memory = static_cast<std::int64_t>(tensor.storage().nbytes());
  if (tensor.device() != passes_.device()) return {};
  if (!dense && (memory < kLeastHostBytes || memory > most_per_part * bytes_of(tensor))) return {};
  const at::Tensor whole =
      dense ? tensor : tensor.as_strided({memory / tensor.element_size()}, {1}, 0);
  Held* known = dense ? &held : held_.find(whole);
  if (known == nullptr) known = &held_.insert(whole, {});
  SharedRecord record = known->values.lock();
  if (record && known->plan.codec == SavedCodec::Host) {
    ++counts_.shared;
  } else {
    record = std::make_shared<SavedRecord>(host_.keep(whole));
    count(SavedCodec::Host, record->bytes);
    known->values = record;
    known->plan = {.codec = SavedCodec::Host};
  }
  return [record, decoded = decoded_, layout = TensorLayout(tensor), version = SavedVersion(tensor),
          from = dense ? 0 : tensor.storage_offset()] {
    version.require_unchanged(layout.sizes);
    const at::Tensor elements = decoded->of(record);
    return elements.as_strided(layout.sizes, layout.strides, elements.storage_offset() + from);
  };
}

/// `mask` is the tensor's where it has one, or is made.
SavedRecord SavedStore::encoded(const at::Tensor& dense, const SavedPlan& plan, Held& held,
                                SharedMask& mask) {
  const SavedOffsets offsets{.rounding = options_.rounding,
                             .seed = options_.seed,
                             .tensor = static_cast<std::uint32_t>(next_ - 1),
                             .step = pass_};
  const bool had_mask = mask != nullptr;
  SavedRecord record = encode_saved_values(dense, plan, offsets, mask, not_finite_, room());
  if (!had_mask) note_mask(mask, held);
  return record;
}

SavedRecord SavedStore::derived(const at::Tensor& tensor, Held& held) {
  if (!tensor.is_non_overlapping_and_dense()) return {};
  SharedMask relu_mask;
  if (derivation_chain(tensor.grad_fn().get()).map == DerivedMap::Relu)
    relu_mask = mask_of(tensor, /*two_valued=*/false, held);
  SavedRecord record = sources_.record_of(tensor, relu_mask);
  if (record.decode) ++counts_.derived;
  return record;
}

}  // namespace triaccel
