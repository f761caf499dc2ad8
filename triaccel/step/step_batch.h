#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "triaccel/data/dataset.h"

namespace triaccel {

/// One forward pass, as a step asks for it.
struct PassRequest {
  std::int64_t first = 0;      // of the step's samples
  std::int64_t count = 0;      // samples of this pass
  std::int64_t samples = 0;    // of all passes
  at::Tensor ids = {};         // of this pass, where the batch has ids
  bool backward = true;        // a gradient is wanted
  at::Tensor score = {};       // loss and hits are added to it
  at::Tensor loss_scale = {};  // F32 scalar on the device; undefined: 1
  // Runs a forward function as planned: layers in their precisions, what autograd saves compressed.
  std::function<at::Tensor(const std::function<at::Tensor()>& forward)> compute = {};
  // Room for the losses of `rows` predictions, for zeroth-order estimates; empty: not wanted.
  std::function<at::Tensor(std::int64_t rows, std::int64_t classes)> losses = {};
};

/// Where backward starts: output.backward(gradient).
struct PassResult {
  at::Tensor output = {};
  at::Tensor gradient = {};  // undefined where none was asked for
};

/// The samples of one optimizer step, and how passes over parts of them come to a loss: those of a
/// data set (DatasetBatch) or whatever the caller has (ClosureBatch).
class StepBatch {
 public:
  virtual ~StepBatch() = default;
  virtual std::int64_t samples() const = 0;

  /// Their numbers in parts that no pass reaches across.
  virtual std::vector<std::int64_t> parts() const { return {samples()}; }

  /// Of the samples, int64 on the device: captured steps read new ones in each replay. Empty where
  /// samples have no numbers.
  virtual at::Tensor ids() const = 0;

  /// Of all that shapes a step besides plan and number of samples; empty: it cannot be captured.
  virtual std::optional<std::uint64_t> key() const { return {}; }

  /// Before a step, never captured.
  virtual void prepare() {}

  virtual PassResult pass(const PassRequest& request) = 0;

  /// After the last pass: a factor for the sum of all gradients and for the losses that
  /// PassRequest::losses took, F32 on the device; undefined: 1.
  virtual at::Tensor correction() { return {}; }
};

/// (outputs, targets) -> mean loss over the samples, a scalar.
using LossFunction = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

/// (outputs, targets) -> mean score over the samples, in [0, 1], higher is better: a scalar.
using MetricFunction = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

/// Samples of a data set through a network, to cross-entropy over the last dimension of its outputs
/// or to a loss of the caller's own. Refers to its arguments.
class DatasetBatch final : public StepBatch {
 public:
  struct Loss {
    LossFunction own = {};  // empty: cross-entropy
    double label_smoothing = 0;
  };
  using Forward = std::function<at::Tensor(const at::Tensor&)>;

  DatasetBatch(const Forward& forward, const Loss& loss, const Dataset& data, const at::Tensor& ids,
               const GatherOptions& gather)
      : forward_(forward), loss_(loss), data_(data), ids_(ids), gather_(gather) {}

  std::int64_t samples() const override { return ids_.numel(); }
  at::Tensor ids() const override { return ids_; }
  std::optional<std::uint64_t> key() const override;
  void prepare() override { data_.enter_epoch(gather_); }
  PassResult pass(const PassRequest& request) override;

 private:
  PassResult cross_entropy(const PassRequest& request, const Batch& batch) const;

  const Forward& forward_;
  const Loss& loss_;
  const Dataset& data_;
  at::Tensor ids_;
  GatherOptions gather_;
};

/// What a caller's closure returns for a part of its batch.
struct ClosureLoss {
  at::Tensor loss = {};   // a scalar: the mean over the samples, or with a count a sum
  at::Tensor count = {};  // a scalar: what the sum is divided by, for instance tokens
};

/// Samples that only the caller knows. The gradient is that of the mean over all passes, whatever
/// their number: of samples, or where counts are given, of what is counted.
class ClosureBatch final : public StepBatch {
 public:
  using Closure = std::function<ClosureLoss(std::int64_t first, std::int64_t count)>;

  /// `closure` gets samples counted through all parts.
  ClosureBatch(std::vector<std::int64_t> parts, Closure closure, c10::Device device);
  ClosureBatch(std::int64_t samples, Closure closure, c10::Device device)
      : ClosureBatch(std::vector{samples}, std::move(closure), device) {}

  /// Steps of equal keys do the same with the same memory, so that one of them may be captured and
  /// replayed for the others. `loss`, an F32 scalar on the device, gets the mean loss each time.
  void allow_replay(std::uint64_t key, at::Tensor loss) {
    key_ = key;
    replayed_loss_ = std::move(loss);
  }

  std::int64_t samples() const override { return samples_; }
  std::vector<std::int64_t> parts() const override { return parts_; }
  at::Tensor ids() const override { return no_ids_; }
  std::optional<std::uint64_t> key() const override { return key_; }
  PassResult pass(const PassRequest& request) override;
  at::Tensor correction() override;

  /// Of the whole step, F32 on the device; after its last pass. Not of a step that is replayed.
  at::Tensor mean_loss() const;

 private:
  std::vector<std::int64_t> parts_;
  std::int64_t samples_;
  Closure closure_;
  at::Tensor no_ids_;
  std::optional<std::uint64_t> key_;
  at::Tensor replayed_loss_;
  // Of the passes so far; counts are known pass by pass, so the first one's stands for all until
  // correction().
  at::Tensor loss_sum_;
  at::Tensor counted_;
  at::Tensor expected_;
  bool several_ = false;
  at::Tensor scratch_;  // a score that nobody reads
};

}  // namespace triaccel
