#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// Owns which samples are left: every sample exactly once an epoch, in an order that depends on
/// (seed, epoch) alone, in batches of whatever size is asked for.
///
/// Reading and taking are two calls, so that a step that fails has taken nothing: the samples of
/// upcoming() stay upcoming until take() says they are trained.
class Sampler final : public Stateful {
 public:
  Sampler(std::vector<std::int64_t> samples, std::uint64_t seed);

  /// At most `count` samples, all of this epoch; fewer at its end, never none.
  std::span<const std::int64_t> upcoming(std::int64_t count) const;

  /// Marks the next `count` samples as trained; after the last one the next epoch begins.
  void take(std::int64_t count);

  std::int64_t epoch() const { return epoch_; }
  std::int64_t cursor() const { return cursor_; }  // samples of this epoch already taken
  std::int64_t samples_per_epoch() const { return static_cast<std::int64_t>(samples_.size()); }

  /// This epoch's samples in order.
  const std::vector<std::int64_t>& order() const { return order_; }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  void shuffle();

  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> order_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  std::int64_t cursor_ = 0;
};

/// `count` numbers from 0, in an order that depends on (seed, stream) alone.
std::vector<std::int64_t> shuffled_numbers(std::int64_t count, std::uint64_t seed,
                                           std::uint64_t stream);

}  // namespace triaccel
