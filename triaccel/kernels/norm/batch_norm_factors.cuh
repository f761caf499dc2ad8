#pragma once

#include <limits>

#include "triaccel/kernels/common/fast_divide.cuh"
#include "triaccel/kernels/norm/batch_norm.h"
#include "triaccel/kernels/norm/batch_norm_rows.cuh"

namespace triaccel::kernels::cuda {

// Kernels are compiled for each of the two: a map without factors has no registers for them.

struct NoFactors {
  static constexpr bool kAny = false;

  template <typename Stored>
  __device__ float of(std::int64_t) const {
    return 1.0f;
  }
};

/// A map's factors by its rows.
class RowFactors {
 public:
  static constexpr bool kAny = true;

  RowFactors(const SampleFactors& factors, const NormMap& map)
      : values_(factors.values), rows_(factors.rows) {
    ensure(map.rows <= std::numeric_limits<std::int32_t>::max(),
           "a map with factors has fewer than 2^31 rows");
  }

  template <typename Stored>
  __device__ float of(std::int64_t row) const {
    const auto* words = static_cast<const typename Stored::Word*>(values_);
    return Stored::value(words[rows_(static_cast<std::int32_t>(row)).quotient]);
  }

 private:
  const void* values_;
  FastDivide rows_;  // of a sample
};

/// body(NoFactors or RowFactors)
template <typename Body>
void with_factors(const SampleFactors& factors, const NormMap& map, Body body) {
  if (factors.values == nullptr)
    body(NoFactors{});
  else
    body(RowFactors(factors, map));
}

}  // namespace triaccel::kernels::cuda
