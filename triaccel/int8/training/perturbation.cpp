#include "triaccel/int8/training/perturbation.h"

#include <algorithm>
#include <cstring>

#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/network.h"
#include "triaccel/int8/threads.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8 {
namespace {

TRIACCEL_WIDE_LOOP void to_noise(const std::uint16_t* __restrict random, std::int32_t count,
                                 const Noise& shape, std::int8_t* __restrict values) {
  const Noise noise = shape;  // a copy cannot alias the values
  for (std::int32_t i = 0; i < count; ++i)
    values[i] = static_cast<std::int8_t>(noise_value(noise, random[i]));
}

std::int8_t saturate_sum(std::int16_t sum) {
  const std::int16_t most = kLargestMantissa;
  const std::int16_t low = sum < -most ? static_cast<std::int16_t>(-most) : sum;
  return static_cast<std::int8_t>(low > most ? most : low);
}

TRIACCEL_WIDE_LOOP void add_and_subtract(const std::int8_t* __restrict weights,
                                         const std::int8_t* __restrict noise, std::int32_t count,
                                         std::int8_t* __restrict plus,
                                         std::int8_t* __restrict minus) {
  for (std::int32_t i = 0; i < count; ++i) {
    plus[i] = saturate_sum(static_cast<std::int16_t>(weights[i] + noise[i]));
    minus[i] = saturate_sum(static_cast<std::int16_t>(weights[i] - noise[i]));
  }
}

}  // namespace

void pack_rows(const WeightRows& from, std::int8_t* panel) {
  const std::int32_t stride = padded_depth(from.depth);
  for (std::int32_t row = 0; row < from.rows; ++row) {
    std::int8_t* to = panel + std::int64_t{row} * stride;
    std::memcpy(to, from.weights + std::int64_t{row} * from.depth,
                static_cast<std::size_t>(from.depth));
    std::memset(to + from.depth, 0, static_cast<std::size_t>(stride - from.depth));
  }
}

void pack_perturbed_rows(const WeightRows& from, std::uint64_t key, const Noise& noise,
                         std::int8_t* plus, std::int8_t* minus) {
  const std::int32_t stride = padded_depth(from.depth);
  const std::int64_t count = std::int64_t{from.rows} * from.depth;
  std::int32_t row = 0;
  std::int32_t column = 0;
  for_random_runs(key, from.index, count,
                  [&](const std::uint16_t* random, std::int64_t done, std::int32_t drawn) {
                    std::int8_t values[kDrawnTogether];
                    to_noise(random, drawn, noise, values);
                    for (std::int32_t at = 0; at < drawn;) {
                      const std::int32_t run = std::min(drawn - at, from.depth - column);
                      const std::int64_t to = std::int64_t{row} * stride + column;
                      add_and_subtract(from.weights + done + at, values + at, run, plus + to,
                                       minus + to);
                      at += run;
                      column += run;
                      if (column < from.depth) continue;
                      std::memset(plus + to + run, 0, static_cast<std::size_t>(stride - column));
                      std::memset(minus + to + run, 0, static_cast<std::size_t>(stride - column));
                      column = 0;
                      ++row;
                    }
                  });
}

}  // namespace triaccel::int8
