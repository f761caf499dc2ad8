#pragma once

#include <cstdint>

#include "triaccel/base/host_device.h"
#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/training/loss_tables.h"
#include "triaccel/int8/training/random_stream.h"

// Cross-entropy of integer logits a_j · 2^exponent, in units of 2^-16 bit ("Q16"), from two tables:
// no division, no float. All passes use the same unit, so their losses can be compared and summed.

namespace triaccel::int8 {

/// Maximum error of one loss, in units of 2^-16 bit (up to 4096 classes): logits rounded to Q16
/// contribute 2 · 1/2, the final rounding 1/2, the tables 0.3, dropped bits of the exponentials
/// 0.4; plus 2^-32 of the loss, the error of log2(e). If the exact losses of two passes over a
/// batch of B differ by more than 2 B times this, the computed difference has the same sign.
inline constexpr std::int64_t kLossError = 3;

/// Logits are clamped to this many Q16 bits and losses to kLargestLoss, so that 2^27 of them sum in
/// int64.
inline constexpr std::int64_t kLargestLogit = std::int64_t{1} << 46;
inline constexpr std::int64_t kLargestLoss = std::int64_t{1} << 36;

/// a · 2^exponent · log2(e) in Q16.
TRIACCEL_HOST_DEVICE inline std::int64_t logit_bits(std::int32_t a, std::int32_t exponent) {
  constexpr std::int64_t kLog2E = 1549082005;  // log2(e) · 2^30
  const std::int64_t product = a * kLog2E;     // below 2^62
  const std::int32_t right = 14 - exponent;
  std::int64_t bits = product;
  if (right > 62) return 0;
  if (right > 0) {
    bits = (product + (std::int64_t{1} << (right - 1))) >> right;
  } else if (right < 0) {
    const std::int32_t left = -right < 47 ? -right : 47;
    const std::int64_t most = kLargestLogit >> left;
    if (product > most) return kLargestLogit;
    if (product < -most) return -kLargestLogit;
    bits = product * (std::int64_t{1} << left);
  }
  if (bits > kLargestLogit) return kLargestLogit;
  return bits < -kLargestLogit ? -kLargestLogit : bits;
}

/// 2^30 · 2^(-drop / 2^16), non-increasing in `drop` >= 0.
TRIACCEL_HOST_DEVICE inline std::uint32_t exp2_falling(const LossTables& tables,
                                                       std::int64_t drop) {
  if (drop >= (std::int64_t{31} << 16)) return 0;
  const std::uint32_t d = static_cast<std::uint32_t>(drop);
  const std::uint32_t i = (d >> 8) & 0xFFu;
  const std::uint32_t upper = tables.exp2[i];
  const std::uint32_t step = ((upper - tables.exp2[i + 1]) * (d & 0xFFu)) >> 8;  // below 2^30
  return (upper - step) >> (d >> 16);
}

/// log2(sum) in Q16, non-decreasing; exact at powers of two. sum > 0.
TRIACCEL_HOST_DEVICE inline std::int64_t log2_bits(const LossTables& tables, std::uint64_t sum) {
#ifdef __CUDA_ARCH__
  const std::int32_t top = 63 - __clzll(static_cast<long long>(sum));
#else
  const std::int32_t top = 63 - __builtin_clzll(sum);
#endif
  const std::uint64_t mantissa = sum << (63 - top);
  const std::uint32_t i = static_cast<std::uint32_t>(mantissa >> 55) & 0xFFu;
  const std::int64_t between = static_cast<std::int64_t>((mantissa >> 39) & 0xFFFFu);
  const std::int64_t low = tables.log2[i];
  const std::int64_t fraction = low + (((tables.log2[i + 1] - low) * between) >> 16);
  return (std::int64_t{top} << 16) + ((fraction + 128) >> 8);
}

/// Shared by the loss and its error.
struct LogitSummary {
  std::int64_t largest = 0;  // Q16
  std::int64_t log_sum = 0;  // log2 Σ_j 2^(t_j - largest), Q16, >= 0
};

TRIACCEL_HOST_DEVICE inline LogitSummary summarise_logits(const LossTables& tables,
                                                          const std::int32_t* logits,
                                                          std::int32_t classes,
                                                          std::int32_t exponent) {
  std::int32_t top = logits[0];
  for (std::int32_t j = 1; j < classes; ++j) top = logits[j] > top ? logits[j] : top;
  const std::int64_t largest = logit_bits(top, exponent);
  std::uint64_t sum = 0;
  for (std::int32_t j = 0; j < classes; ++j)
    sum += exp2_falling(tables, largest - logit_bits(logits[j], exponent));
  return {.largest = largest, .log_sum = log2_bits(tables, sum) - (std::int64_t{30} << 16)};
}

TRIACCEL_HOST_DEVICE inline std::int64_t loss_bits(const LogitSummary& summary,
                                                   std::int32_t label_logit,
                                                   std::int32_t exponent) {
  const std::int64_t loss = summary.largest - logit_bits(label_logit, exponent) + summary.log_sum;
  return loss < kLargestLoss ? loss : kLargestLoss;
}

/// -log2 softmax(logits · 2^exponent)[label] in Q16.
TRIACCEL_HOST_DEVICE inline std::int64_t cross_entropy(const LossTables& tables,
                                                       const std::int32_t* logits,
                                                       std::int32_t classes, std::int32_t exponent,
                                                       std::int32_t label) {
  return loss_bits(summarise_logits(tables, logits, classes, exponent), logits[label], exponent);
}

/// Exponent of loss errors: a mantissa of 128 would be a probability of one.
inline constexpr std::int32_t kLossErrorExponent = -7;

/// Softmax of one class, Q11.
TRIACCEL_HOST_DEVICE inline std::int32_t class_probability(const LossTables& tables,
                                                           const LogitSummary& summary,
                                                           std::int32_t logit,
                                                           std::int32_t exponent) {
  const std::int64_t drop = summary.largest - logit_bits(logit, exponent) + summary.log_sum;
  return static_cast<std::int32_t>(exp2_falling(tables, drop > 0 ? drop : 0) >> 19);
}

/// Error of one class; `wanted` is the sum of all probabilities for the label, otherwise 0.
TRIACCEL_HOST_DEVICE inline std::int8_t class_error(std::int32_t probability, std::int32_t wanted,
                                                    std::uint32_t random) {
  return saturate8(round_stochastic(probability - wanted, 4, random));
}

/// Index of a sample's first random bits, at the start of a block.
TRIACCEL_HOST_DEVICE inline std::int64_t first_error_index(std::int64_t sample,
                                                           std::int32_t classes) {
  return sample * ((classes + 7) / 8 * 8);
}

/// softmax - onehot as mantissas. Before the stochastic rounding the errors sum to exactly zero.
/// `key` and `sample` select the random bits.
TRIACCEL_HOST_DEVICE inline void loss_error(const LossTables& tables, const LogitSummary& summary,
                                            const std::int32_t* logits, std::int32_t classes,
                                            std::int32_t exponent, std::int32_t label,
                                            std::uint64_t key, std::int64_t sample,
                                            std::int8_t* error) {
  std::int32_t sum = 0;
  for (std::int32_t j = 0; j < classes; ++j)
    sum += class_probability(tables, summary, logits[j], exponent);
  const std::int64_t first = first_error_index(sample, classes);
  RandomWords block = {};
  for (std::int32_t j = 0; j < classes; ++j) {
    if (j % 8 == 0) block = random_words(key, static_cast<std::uint64_t>((first + j) >> 3));
    const std::uint32_t random = block.words[(j >> 1) & 3] >> ((j & 1) * 16);
    const std::int32_t probability = class_probability(tables, summary, logits[j], exponent);
    error[j] = class_error(probability, j == label ? sum : 0, random);
  }
}

}  // namespace triaccel::int8
