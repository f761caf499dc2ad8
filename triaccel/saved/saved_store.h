#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/saved/derived_tensor.h"
#include "triaccel/saved/host_offload.h"
#include "triaccel/saved/record_arena.h"
#include "triaccel/saved/saved_encoder.h"
#include "triaccel/saved/saved_record.h"
#include "triaccel/saved/saved_tensor_engine.h"
#include "triaccel/saved/tensor_identity.h"

namespace triaccel {

struct SavedStoreOptions {
  std::uint64_t seed = 0;
  kernels::Rounding rounding = kernels::Rounding::Dither;
  bool share = true;   // off: what is saved twice is kept twice, see RegisteredCodec
  bool exact = false;  // no plan changes a bit of a saved tensor's values
};

/// Keeps what forward passes save as their plan says.
///
///   store.follow(census, plans);
///   store.begin_pass();
///   { SavedTensorScope scope(store); logits = forward(inputs); }
///   logits.backward(gradient);
///   store.end_pass();
///
/// Nothing here waits for the device, so a pass may be captured; records lie in the memory that is
/// current when they are made, several to a page of their pass: see RecordArena. A record lives as
/// long as the graph that it was saved for, whatever becomes of the store. Differentiating twice
/// through a record that is not raw is a UsageError.
class SavedStore final : public SavedTensorKeeper {
 public:
  /// `constants`: parameters and buffers, which are never encoded.
  SavedStore(const SavedStoreOptions& options, std::vector<at::Tensor> constants,
             c10::Device device);
  ~SavedStore() override;
  SavedStore(const SavedStore&) = delete;
  SavedStore& operator=(const SavedStore&) = delete;

  /// A plan for each entry of the census. Tensors that turn out to be others than the census tells
  /// stay raw.
  void follow(SavedCensus census, std::vector<SavedPlan> plans);

  /// Before each forward pass: forgets the tensors of the last one, draws other offsets. `in_step`
  /// as HostOffload.
  void begin_pass(bool in_step = false);

  /// After its backward pass: leaves no memory behind but records that a graph still holds.
  void end_pass();

  /// The same for a pass that did not come to its end.
  void abandon_pass();

  std::function<at::Tensor()> keep(const at::Tensor& tensor) override;

  /// Keeps what passes count on the device, and puts it back for a step that is undone. Neither
  /// allocates.
  void take_counters();
  void put_back_counters();

  /// Of the last pass.
  SavedCounts counts() const;

  /// Host memory that SavedCodec::Host has taken so far.
  std::int64_t host_bytes() const { return host_.host_bytes(); }

  /// Whether a pass since follow() saved other tensors than the census tells: profile again.
  bool needs_profile() const { return needs_profile_; }

  /// int64 [1] on the device: passes so far. State to be stored with a run.
  const at::Tensor& passes() const { return passes_; }

  /// int32 [1] on the device: ranges so far that held a NaN or an infinity and decode to NaN. The
  /// caller may zero it.
  const at::Tensor& not_finite() const { return not_finite_; }

 private:
  struct Held;
  using GiveBack = std::function<at::Tensor()>;

  bool is_planned(std::size_t number, const at::Tensor& tensor) const;
  Held& held_for(const at::Tensor& tensor, const SavedEntry& entry);
  GiveBack keep_raw(const at::Tensor& tensor, Held& held);
  GiveBack keep_relu_mask(const at::Tensor& bits);
  GiveBack keep_on_host(const at::Tensor& tensor, Held& held);
  GiveBack keep_coded(const at::Tensor& tensor, std::size_t number, Held& held);
  GiveBack keep_windows(const at::Tensor& tensor, const SavedEntry& entry);
  GiveBack keep_mask(const at::Tensor& tensor, std::size_t number, Held& held);
  GiveBack keep_values(const at::Tensor& tensor, const SavedPlan& plan, Held& held);
  SavedRecord encoded(const at::Tensor& dense, const SavedPlan& plan, Held& held, SharedMask& mask);
  SavedRecord derived(const at::Tensor& tensor, Held& held);
  SharedMask relu_mask_of(const at::Tensor& tensor) const;
  SharedMask mask_of(const at::Tensor& dense, bool two_valued, Held& held);
  void note_mask(const SharedMask& mask, Held& held);
  void forget_pass();
  void count(SavedCodec codec, std::int64_t bytes);
  EncodeBuffer room();
  void note_source(const SharedRecord& record, const at::Tensor& decoded_like);

  SavedStoreOptions options_;
  ConstantTensors constants_;
  at::Tensor passes_, not_finite_;
  at::Tensor passes_before_, not_finite_before_;
  SavedCensus census_;
  std::vector<SavedPlan> plans_;
  bool derives_ = false;  // a plan says so
  bool needs_profile_ = false;

  // Of the pass under way.
  at::Tensor pass_;  // a copy of passes_: its records may outlast it
  std::size_t next_ = 0;
  TensorMap<Held> held_;
  std::unordered_map<std::uint64_t, std::weak_ptr<const SavedMask>> relu_masks_;  // by node
  std::vector<std::int64_t> sizes_before_;  // of the tensor saved last …
  std::uint64_t node_before_ = 0;           // … and the node that saved it
  SavedCounts counts_;
  std::shared_ptr<DecodedTensor> decoded_;
  DerivationSources sources_;
  RecordArena arena_;
  HostOffload host_;
};

}  // namespace triaccel
