#include "triaccel/data/sampler.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"

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

at::Tensor ids_on_device(std::span<const std::int64_t> ids, c10::Device device) {
  // from_blob requires a mutable pointer, but the view is only read.
  auto* const data = const_cast<std::int64_t*>(ids.data());
  return at::from_blob(data, {static_cast<std::int64_t>(ids.size())}, at::kLong)
      .to(device, at::kLong, /*non_blocking=*/false, /*copy=*/true);
}

Batch gather_unprepared(const Dataset& data, const at::Tensor& ids) {
  const at::Tensor host = ids.cpu().contiguous();
  data.prepare({host.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(host.numel())});
  return data.gather(ids, {});
}

at::Tensor EpochOrder::upcoming(const Sampler& sampler, std::int64_t count) {
  if (epoch_ != sampler.epoch()) {
    MemoryPurposeScope purpose(MemoryPurpose::Data);
    epoch_ = -1;  // until the new order is uploaded
    order_.reset();
    order_ = ids_on_device(sampler.order(), device_);
    epoch_ = sampler.epoch();
  }
  const auto ids = sampler.upcoming(count);
  if (data_ != nullptr)
    data_->prepare(ids, std::span(sampler.order())
                            .subspan(static_cast<std::size_t>(
                                sampler.cursor() + static_cast<std::int64_t>(ids.size()))));
  return order_.narrow(0, sampler.cursor(), static_cast<std::int64_t>(ids.size()));
}

}  // namespace triaccel
