#include "triaccel/kernels/cpu/predicted_codec_search.h"

#include <algorithm>
#include <cmath>

namespace triaccel::kernels::cpu {
namespace {

constexpr int kMostShorter = 3;  // bits, of 2 that say how many
constexpr int kPredictionBits = 2 + 8 + 8;

/// Whether the codes of a prediction reach every difference.
bool reaches(const PredictedWork& work, const PredictedTile& tile, const PredictedBlock& x, int at,
             const Prediction& prediction) {
  const UnitRanges& ranges = tile.ranges_of_block(work, at);
  for (int place = 1; place < work.coefficients(); ++place) {
    const auto p = static_cast<std::size_t>(place);
    const CodeWidth width(work.coding.bits[p], place, prediction);
    if (width.full == 0) continue;
    const float difference = x[static_cast<std::size_t>(work.number[p])] -
                             tile.predicted(prediction, place, work.number[p]);
    if (!(magnitude(difference) <= width.reach(band_range(ranges, work.band[p])))) return false;
  }
  return true;
}

}  // namespace

std::uint32_t signature(const PredictedWork& work, const PredictedBlock& x,
                        const UnitRanges& ranges) {
  constexpr int planes = 16;
  const int used = work.coding.block == 4 ? 9 : 14;
  std::uint32_t key = 0;
  float sums[planes] = {};
  for (int i = 1; i <= used; ++i) {
    const CoefficientPlace at = by_frequency(work.coding.block, i);
    const float range = band_range(ranges, band_of(work.coding.block, at.row, at.column));
    const float value = x[static_cast<std::size_t>(at.row * work.coding.block + at.column)];
    const float scaled = range > 0 ? value / range : 0.0f;
    constexpr std::uint64_t seed = 0x5170a54;  // any: a plane's signs are the same in all runs
    const std::uint32_t signs = random_words(seed, static_cast<std::uint64_t>(i)).words[0];
    for (int plane = 0; plane < planes; ++plane)
      sums[plane] += (signs >> plane & 1u) != 0 ? scaled : -scaled;
  }
  for (int plane = 0; plane < planes; ++plane) key |= (sums[plane] > 0 ? 1u : 0u) << plane;
  return key;
}

int bits_saved(const PredictedWork& work, const Prediction& prediction) {
  int saved = -kPredictionBits;
  for (int place = 1; place < work.coefficients(); ++place) {
    const CodeWidth width(work.coding.bits[static_cast<std::size_t>(place)], place, prediction);
    saved += width.full - width.held;
  }
  return saved;
}

std::optional<Prediction> prediction_from(const PredictedWork& work, const PredictedTile& tile,
                                          const PredictedBlock& x, int at, int from) {
  const PredictedBlock& r = tile.decoded[static_cast<std::size_t>(from)];
  double both = 0, own = 0;
  for (int i = 1; i < work.coefficients(); ++i) {
    const auto p = static_cast<std::size_t>(i);
    both += double{x[p]} * r[p];
    own += double{r[p]} * r[p];
  }
  if (!(both > 0) || !(own > 0)) return {};
  const double gain = std::min(255.0, std::round(both / own * kGainOne));
  for (int shorter = kMostShorter; shorter > 0; --shorter) {
    const Prediction prediction{shorter, from, static_cast<int>(gain)};
    if (bits_saved(work, prediction) > 0 && reaches(work, tile, x, at, prediction))
      return prediction;
  }
  return {};
}

}  // namespace triaccel::kernels::cpu
