#pragma once

#include <cstdint>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/network.h"

namespace triaccel::int8 {

/// Random samples whose label can be learnt: each class brightens its own inputs. Their sizes
/// differ, and with them their exponents.
struct Samples {
  std::vector<std::int8_t> inputs;
  std::vector<std::int32_t> labels;

  Samples(const Network& network, std::int32_t count, std::uint64_t seed) {
    for (std::int32_t b = 0; b < count; ++b) {
      labels.push_back(b % network.classes());
      for (std::int32_t i = 0; i < network.inputs(); ++i) {
        const std::uint32_t word =
            random_words(seed, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(b))
                .words[0];
        const bool bright = i % network.classes() == labels.back();
        inputs.push_back(
            static_cast<std::int8_t>(bounded(word, bright ? 127 : 60) >> (b % 3 == 2 ? 3 : 0)));
      }
    }
  }
  Batch batch() const {
    return {.inputs = inputs.data(),
            .labels = labels.data(),
            .size = static_cast<std::int32_t>(labels.size())};
  }
};

}  // namespace triaccel::int8
