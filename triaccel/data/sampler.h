#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/data/dataset.h"

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

/// A sampler's order on the device, uploaded once per epoch, so that the sample ids of a step are a
/// view and no step needs a copy from the host.
class EpochOrder {
 public:
  /// With `data`, its upcoming samples are prepared, and those after them are read ahead.
  explicit EpochOrder(c10::Device device, const Dataset* data = nullptr)
      : device_(device), data_(data) {}

  /// The sampler's upcoming(count) as int64 on the device.
  at::Tensor upcoming(const Sampler& sampler, std::int64_t count);

 private:
  c10::Device device_;
  const Dataset* data_;
  std::int64_t epoch_ = -1;
  at::Tensor order_;
};

/// Host numbers as an int64 tensor on a device.
at::Tensor ids_on_device(std::span<const std::int64_t> ids, c10::Device device);

}  // namespace triaccel
