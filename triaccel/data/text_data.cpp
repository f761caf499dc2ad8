#include "triaccel/data/text_data.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/core/step_report.h"
#include "triaccel/device/cpu_memory.h"

namespace triaccel {
namespace {

constexpr std::uint64_t kShiftStream = std::uint64_t{1} << 49;  // of the seed, apart from others

}  // namespace

TextData::TextData(std::span<const std::uint8_t> tokens, std::int64_t context,
                   const DataPlace& place, bool may_shift)
    : context_(context), may_shift_(may_shift) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  // The last window must fit with the largest shift.
  windows_ = (count - 1) / context - 1;
  require(context > 0 && windows_ > 0, "--context-length", "a text of ", count,
          " tokens is too short for windows of ", context);
  MemoryPurposeScope purpose(MemoryPurpose::Data);
  tokens_ = StoredSamples::copy(tokens.data(), {count}, at::kByte, place);
  steps_ = at::arange(context + 1, at::TensorOptions(at::kLong).device(place.device));
  shift_ = at::zeros({1}, steps_.options());
}

void TextData::enter_epoch(const GatherOptions& options) const {
  const auto epoch = static_cast<std::uint64_t>(options.epoch);
  const RandomWords random = random_words(options.seed, epoch, kShiftStream);
  const std::int64_t shift = bounded(random.words[0], static_cast<std::uint32_t>(context_));
  if (entered_ == shift) return;  // avoids a kernel launch per step
  shift_.fill_(shift);
  entered_ = shift;
}

Batch TextData::gather(const at::Tensor& ids, const GatherOptions& options) const {
  at::Tensor first = ids * context_;
  if (options.augment && may_shift_) first += shift_;
  const at::Tensor places = first.unsqueeze(1) + steps_;
  const at::Tensor windows = tokens_.tensor().take(places).to(at::kLong);
  return {windows.narrow(1, 0, context_), windows.narrow(1, 1, context_)};
}

}  // namespace triaccel
