#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/kernels/update/adamw.h"
#include "triaccel/kernels/update/quantized_update.h"
#include "triaccel/kernels/update/sgd.h"
#include "triaccel/kernels/update/state_codec_math.h"

namespace triaccel::kernels {

static_assert(kChunk % kStateBlock == 0, "a block lies in one chunk");

/// What an update does to one element, by its step's factors; `v` is a second moment where there is
/// one.
struct SgdRule {
  using Step = SgdStep;
  using Factors = SgdStep;
  static constexpr bool kHasSecond = false;
  TRIACCEL_HOST_DEVICE static Factors factors(Step step, std::int64_t) { return step; }
  TRIACCEL_HOST_DEVICE static void apply(float& p, float& m, float&, float gradient,
                                         float learning_rate, const Factors& factors) {
    sgd_element(p, m, gradient, learning_rate, factors);
  }
};

struct AdamWRule {
  using Step = AdamWStep;
  using Factors = AdamWFactors;
  static constexpr bool kHasSecond = true;
  TRIACCEL_HOST_DEVICE static Factors factors(Step step, std::int64_t number) {
    return adamw_factors(step, number);
  }
  TRIACCEL_HOST_DEVICE static void apply(float& p, float& m, float& v, float gradient,
                                         float learning_rate, const Factors& factors) {
    adamw_element(p, m, v, gradient, learning_rate, factors);
  }
};

/// The codes of a chunk's state, of which a list knows the address only.
struct StateCodes {
  TRIACCEL_HOST_DEVICE StateCodes(float* state, std::int64_t count, const ChunkRange& range)
      : codes(reinterpret_cast<std::uint8_t*>(state) + range.begin),
        exponents(reinterpret_cast<std::uint8_t*>(state) + state_blocks(count) * kStateBlock +
                  range.begin / kStateBlock) {}

  std::uint8_t* codes;
  std::uint8_t* exponents;  // of the blocks
};

/// As a kernel takes it.
struct StateDither {
  explicit StateDither(const StateNoise& noise)
      : draws{random_keys<kDitherRounds>(noise.seed)},
        origin(static_cast<const std::uint8_t*>(noise.origin)) {}

  StateDraws draws;
  const std::uint8_t* origin;
};

}  // namespace triaccel::kernels
