#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/policies/compression_loop.h"
#include "triaccel/policies/compression_options.h"
#include "triaccel/policies/saved_planner.h"
#include "triaccel/policies/similarity_meter.h"

namespace triaccel {

/// Compression in the control loop: what saved tensors are worth, from what ticks and epochs say
/// and from what the tensors look like.
///
/// The same reports give the same plans, also across state() and restore().
class CompressionPolicy final : public Stateful {
 public:
  /// Throws UsageError for options no run can have.
  explicit CompressionPolicy(const CompressionOptions& options);

  void tick(const CompressionTick& tick, PolicyEvents& events);
  void epoch(const CompressionEpoch& epoch, PolicyEvents& events);

  /// Plans for passes of so many samples; `previous` are those in force, by tensor, or none. While
  /// neither the ratio nor the price of a drop has changed, only tensors that have moved since the
  /// last call get new ones.
  SavedDecision plan(std::span<const SavedStatistics> tensors, std::int64_t samples,
                     std::span<const SavedPlan> previous);

  CompressionOrders orders() const { return orders_of(loop_, options_.loop); }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  struct Planned {
    double ratio = 0, drop_price = 0;
  };

  CompressionOptions options_;
  CompressionState loop_;
  Planned planned_;                    // what the plans in force were made for
  std::vector<SavedSketch> sketches_;  // of the tensors when they last got a plan
};

}  // namespace triaccel
