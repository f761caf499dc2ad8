#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "triaccel/device/side_stream.h"
#include "triaccel/ops/update/weight_copies.h"

namespace triaccel {

/// 16-bit copies of all weights that a pass will ask for, made by one launch at its start instead
/// of one by one: what passes have asked for since the plan changed.
class PreparedWeights {
 public:
  explicit PreparedWeights(std::vector<at::Tensor> weights);

  /// Copies of what was asked for since `expect_nothing()`, as the weights are now. With `side`,
  /// they are made there, concurrently with what comes before the first of them is asked for.
  void make(SideStream* side);
  /// The current stream comes after copies that are made on a side stream.
  void join();
  /// Frees them: after the step, whose update changes the weights.
  void drop();
  /// Frees one layer's, which has been read for the last time in this step.
  void drop(std::int64_t layer);

  /// The layers ask for other types from now on.
  void expect_nothing();

  /// The copy of a layer's weight; empty when there is none. Either way it is expected next time.
  std::optional<at::Tensor> ask(std::int64_t layer, const WeightPart& part, at::ScalarType type);

 private:
  struct Wanted {
    WeightPart part;
    at::ScalarType type;
    bool operator==(const Wanted&) const = default;
  };

  std::vector<at::Tensor> weights_;
  std::vector<std::optional<Wanted>> wanted_;  // index = layer
  std::vector<std::optional<Wanted>> made_;    // what copies_ holds
  std::vector<std::size_t> index_;             // of a layer's copy in copies_
  std::optional<WeightCopies> copies_;
  SideStream* side_ = nullptr;  // where copies are made that were not waited for yet
};

}  // namespace triaccel
