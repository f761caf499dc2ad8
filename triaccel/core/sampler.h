#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/state_view.h"

namespace triaccel {

/// Draws every sample exactly once per epoch, in an order that depends only on (seed, epoch), in
/// batches of any size.
///
/// Reading and consuming are separate, so that a failed step consumes nothing: upcoming() returns
/// the same samples until take() marks them as trained.
class Sampler final : public Stateful {
 public:
  Sampler(std::vector<std::int64_t> samples, std::uint64_t seed);

  /// Up to `count` samples of this epoch; fewer at its end, at least one.
  std::span<const std::int64_t> upcoming(std::int64_t count) const;

  /// Marks the next `count` samples as trained; the next epoch starts after the last.
  void take(std::int64_t count);

  std::int64_t epoch() const { return epoch_; }
  std::int64_t cursor() const { return cursor_; }  // samples of this epoch already trained
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

/// A permutation of 0 .. count - 1 that depends only on (seed, stream).
std::vector<std::int64_t> shuffled_numbers(std::int64_t count, std::uint64_t seed,
                                           std::uint64_t stream);

/// Training and held-out samples of a set, each in file order.
struct SampleSplit {
  std::vector<std::int64_t> training = {};
  std::vector<std::int64_t> validation = {};
};

/// Draws `held_out` of `all` samples for validation, and `used` of the others for training (0: all
/// of them). Which samples are held out does not depend on `used`.
SampleSplit split_samples(std::int64_t all, std::int64_t held_out, std::int64_t used,
                          std::uint64_t seed);

/// The length of a run.
struct RunExtent {
  double epochs = 0;
  std::int64_t steps = 0;  // > 0: instead of epochs
  std::int64_t batch = 1;  // samples of a step; the last of an epoch is a short one
};

std::int64_t samples_in_run(const RunExtent& extent, std::int64_t samples_per_epoch);
std::int64_t steps_in_run(const RunExtent& extent, std::int64_t samples_per_epoch);

}  // namespace triaccel
