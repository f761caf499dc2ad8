#pragma once

#include "triaccel/int8/cuda/device_math.cuh"
#include "triaccel/int8/training/cross_entropy.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8::cuda {

__device__ const LossTables kDeviceTables = kLossTables;

__device__ inline std::uint64_t warp_sum(std::uint64_t value) {
  for (int apart = 16; apart > 0; apart /= 2)
    value += __shfl_xor_sync(kWholeWarp, static_cast<unsigned long long>(value), apart);
  return value;
}

/// A sample's logits, one class per lane; each function is called by all lanes of a warp and
/// matches its namesake in cross_entropy.h.
struct WarpLogits {
  const std::int32_t* values;
  std::int32_t classes;
  std::int32_t exponent;

  __device__ std::int32_t largest(std::int32_t lane) const {
    std::int32_t most = values[0];
    for (std::int32_t j = lane; j < classes; j += 32) most = values[j] > most ? values[j] : most;
    for (int apart = 16; apart > 0; apart /= 2) {
      const std::int32_t other = __shfl_xor_sync(kWholeWarp, most, apart);
      most = other > most ? other : most;
    }
    return most;
  }

  /// Whether a class before `end` has logit `value`.
  __device__ bool has_before(std::int32_t lane, std::int32_t end, std::int32_t value) const {
    bool found = false;
    for (std::int32_t j = lane; j < end; j += 32) found = found || values[j] == value;
    return __any_sync(kWholeWarp, found) != 0;
  }

  __device__ LogitSummary summary(std::int32_t lane, std::int32_t top) const {
    const std::int64_t most = logit_bits(top, exponent);
    std::uint64_t sum = 0;
    for (std::int32_t j = lane; j < classes; j += 32)
      sum += exp2_falling(kDeviceTables, most - logit_bits(values[j], exponent));
    return {.largest = most,
            .log_sum = log2_bits(kDeviceTables, warp_sum(sum)) - (std::int64_t{30} << 16)};
  }

  __device__ void errors(std::int32_t lane, const LogitSummary& summary, std::int32_t label,
                         std::int32_t sample, std::uint64_t key, std::int8_t* error) const {
    std::int32_t sum = 0;
    for (std::int32_t j = lane; j < classes; j += 32)
      sum += class_probability(kDeviceTables, summary, values[j], exponent);
    sum = warp_sum(sum);
    const std::int64_t first = first_error_index(sample, classes);
    for (std::int32_t j = lane; j < classes; j += 32) {
      const std::uint32_t random = random_half_word(key, static_cast<std::uint64_t>(first + j));
      const std::int32_t probability =
          class_probability(kDeviceTables, summary, values[j], exponent);
      error[j] = class_error(probability, j == label ? sum : 0, random);
    }
  }
};

}  // namespace triaccel::int8::cuda
