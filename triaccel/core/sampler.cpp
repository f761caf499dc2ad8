#include "triaccel/core/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/base/random.h"

namespace triaccel {
namespace {

/// Fisher-Yates shuffle with counter-based random numbers; 64 bits per draw make the bias
/// negligible.
void shuffle_in_place(std::vector<std::int64_t>& values, std::uint64_t seed, std::uint64_t stream) {
  for (std::size_t i = values.size(); i > 1; --i) {
    const RandomWords random = random_words(seed, i, stream);
    const std::uint64_t draw = (std::uint64_t{random.words[0]} << 32) | random.words[1];
    std::swap(values[i - 1], values[draw % i]);
  }
}

// Random stream of epoch 0; later epochs use the following streams.
constexpr std::uint64_t kEpochStream = std::uint64_t{1} << 48;
constexpr std::uint64_t kHoldOutStream = std::uint64_t{1} << 50;

}  // namespace

std::vector<std::int64_t> shuffled_numbers(std::int64_t count, std::uint64_t seed,
                                           std::uint64_t stream) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  shuffle_in_place(numbers, seed, stream);
  return numbers;
}

Sampler::Sampler(std::vector<std::int64_t> samples, std::uint64_t seed)
    : samples_(std::move(samples)), seed_(seed) {
  require(!samples_.empty(), "--train-samples", "there are no training samples");
  shuffle();
}

void Sampler::shuffle() {
  order_ = samples_;
  shuffle_in_place(order_, seed_, kEpochStream + static_cast<std::uint64_t>(epoch_));
}

std::span<const std::int64_t> Sampler::upcoming(std::int64_t count) const {
  require(count > 0, "Sampler::upcoming", "count must be positive, got ", count);
  const std::int64_t left = samples_per_epoch() - cursor_;
  return std::span(order_).subspan(static_cast<std::size_t>(cursor_),
                                   static_cast<std::size_t>(std::min(count, left)));
}

void Sampler::take(std::int64_t count) {
  require(count > 0 && cursor_ + count <= samples_per_epoch(), "Sampler::take", count,
          " samples, but only ", samples_per_epoch() - cursor_, " are left in the epoch");
  cursor_ += count;
  if (cursor_ < samples_per_epoch()) return;
  cursor_ = 0;
  ++epoch_;
  shuffle();
}

std::vector<StateView> Sampler::state() const {
  return {number_state<std::int64_t>(
      "sampler", {static_cast<std::int64_t>(seed_), epoch_, cursor_, samples_per_epoch()})};
}

void Sampler::restore(const StateMap& saved) {
  const auto values = numbers_from<std::int64_t>(saved, "sampler", 4);
  if (values[3] != samples_per_epoch())
    throw StorageError(
        text("the checkpoint was made with ", values[3], " training samples, now there are ",
             samples_per_epoch(),
             "; use the data set, --train-samples and --val-split of the original run"));
  if (values[1] < 0 || values[2] < 0 || values[2] >= samples_per_epoch())
    throw StorageError("the checkpoint's sampler position is outside its epoch");
  seed_ = static_cast<std::uint64_t>(values[0]);
  epoch_ = values[1];
  cursor_ = values[2];
  shuffle();
}

SampleSplit split_samples(std::int64_t all, std::int64_t held_out, std::int64_t used,
                          std::uint64_t seed) {
  require(held_out >= 0 && held_out < all, "--val-split", "cannot hold out ", held_out, " of ", all,
          " training samples");
  const std::vector<std::int64_t> order = shuffled_numbers(all, seed, kHoldOutStream);
  const auto held = static_cast<std::ptrdiff_t>(held_out);
  SampleSplit split{.training = {order.begin() + held, order.end()},
                    .validation = {order.begin(), order.begin() + held}};
  const auto wanted = static_cast<std::size_t>(used);
  if (wanted > 0 && wanted < split.training.size()) split.training.resize(wanted);
  // File order keeps memory access sequential where batches allow it.
  std::ranges::sort(split.training);
  std::ranges::sort(split.validation);
  return split;
}

std::int64_t samples_in_run(const RunExtent& extent, std::int64_t samples_per_epoch) {
  if (extent.steps > 0) {
    const std::int64_t batch = std::min(extent.batch, samples_per_epoch);
    const std::int64_t steps_per_epoch = divide_up(samples_per_epoch, batch);
    return extent.steps / steps_per_epoch * samples_per_epoch +
           extent.steps % steps_per_epoch * batch;
  }
  return std::max<std::int64_t>(
      1, std::llround(extent.epochs * static_cast<double>(samples_per_epoch)));
}

std::int64_t steps_in_run(const RunExtent& extent, std::int64_t samples_per_epoch) {
  if (extent.steps > 0) return extent.steps;
  const std::int64_t total = samples_in_run(extent, samples_per_epoch);
  const auto steps = [&](std::int64_t samples) { return divide_up(samples, extent.batch); };
  return total / samples_per_epoch * steps(samples_per_epoch) + steps(total % samples_per_epoch);
}

}  // namespace triaccel
