#include "triaccel/kernels/compression/channel_levels.h"

#include <algorithm>
#include <limits>

#include "triaccel/kernels/common/float_type_math.h"

namespace triaccel::kernels::cpu {
namespace {

constexpr std::int64_t kChannelsAtOnce = 64;  // neighbours in channels-last memory
constexpr std::int64_t kElementsAlone = 1 << 15;

/// Channels from `first` on, `count` of them.
template <typename Stored>
void level(const ChannelRows& rows, std::int64_t first, std::int64_t count, const void* values,
           void* levelled, float* lowest, float* range) {
  using Word = typename Stored::Word;
  float low[kChannelsAtOnce], high[kChannelsAtOnce];
  std::fill_n(low, count, std::numeric_limits<float>::infinity());
  std::fill_n(high, count, -std::numeric_limits<float>::infinity());
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const Word* from = static_cast<const Word*>(values) + rows.element(first, row);
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      const float value = Stored::value(from[c * rows.channel_stride]);
      low[c] = value < low[c] ? value : low[c];
      high[c] = value > high[c] ? value : high[c];
    }
  }
  float inverse[kChannelsAtOnce];
  for (std::int64_t c = 0; c < count; ++c) {
    const ChannelLevel level(low[c], high[c]);
    lowest[first + c] = level.lowest;
    range[first + c] = level.range;
    inverse[c] = level.inverse;
  }
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const std::int64_t start = rows.element(first, row);
    const Word* from = static_cast<const Word*>(values) + start;
    Word* to = static_cast<Word*>(levelled) + start;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      const std::int64_t at = c * rows.channel_stride;
      to[at] = Stored::word(kernels::levelled(Stored::value(from[at]), low[c], inverse[c]));
    }
  }
}

}  // namespace

void level_channels(const MapsToLevel& maps, const void* values, void* levelled, float* lowest,
                    float* range) {
  if (maps.count == 0) return;
  const ChannelRows rows(maps);
  with_stored_type(maps.type, [&]<typename Stored>(Stored) {
#pragma omp parallel for schedule(static) if (maps.count > kElementsAlone)
    for (std::int64_t first = 0; first < rows.channels; first += kChannelsAtOnce)
      level<Stored>(rows, first, std::min(kChannelsAtOnce, rows.channels - first), values, levelled,
                    lowest, range);
  });
}

}  // namespace triaccel::kernels::cpu
