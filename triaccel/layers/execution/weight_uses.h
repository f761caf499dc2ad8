#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "triaccel/layers/execution/other_gradients.h"

namespace triaccel {

/// What uses the weights of a network in a pass: their layers, how often, and anything else.
class WeightUses {
 public:
  WeightUses(std::size_t layers, std::shared_ptr<const OtherGradients> others)
      : others_(std::move(others)), uses_(layers), was_used_(layers) {}

  void begin_pass();

  /// Whether note() counts: not for layers that compute the same once more.
  void count(bool on) { counts_ = on; }
  /// A layer computes, with this bias.
  void note(std::int64_t layer, const std::optional<at::Tensor>& bias);
  /// Whether the layer has computed at all; embeddings and what others read never do.
  bool was_used(std::int64_t layer) const { return was_used_[static_cast<std::size_t>(layer)]; }
  bool is_repeated(std::int64_t layer) const { return uses_[static_cast<std::size_t>(layer)] > 1; }

  /// Whether in the last pass every weight was used once, and by its own layer alone: it then gets
  /// its gradient in one part.
  bool each_once() const;

 private:
  std::shared_ptr<const OtherGradients> others_;
  bool counts_ = true;
  std::vector<int> uses_;                   // in this pass, by its layer
  std::vector<bool> was_used_;              // in any pass
  std::unordered_set<const void*> biases_;  // in this pass
  bool shares_bias_ = false;                // two layers of this pass have the same
};

/// Counters of batches, as norms keep them: those of a pass go up together.
class BatchCounters {
 public:
  static bool is_counter(const at::Tensor& tensor);
  /// counter += 1, later; false: it is no such counter.
  bool count_up(const at::Tensor& counter);
  bool empty() const { return counters_.empty(); }
  /// Somebody is about to read or to write `tensor`.
  void touch(const at::Tensor& tensor);
  void add_up();
  void clear() { counters_.clear(); }

 private:
  std::vector<at::Tensor> counters_;
};

}  // namespace triaccel
