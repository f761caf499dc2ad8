#include <algorithm>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/precision/layer_scale.h"
#include "triaccel/kernels/precision/scaled_cast.h"

namespace triaccel::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 16384;  // elements of one turn: stays in the nearest caches

template <typename From, typename To>
TRIACCEL_WIDE_VECTORS float cast_block(const typename From::Word* from, typename To::Word* to,
                                       std::int64_t count, float factor, bool divide) {
  float maximum = 0;
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = cast_element<From, To>(from[i], factor, divide, maximum);
  return maximum;
}

template <typename From, typename To>
float cast_all(const typename From::Word* from, typename To::Word* to, std::int64_t count,
               float factor, bool divide) {
  const std::int64_t blocks = divide_up(count, kBlock);
  float maximum = 0;
#pragma omp parallel for schedule(static) reduction(max : maximum) if (blocks > 1)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * kBlock;
    maximum =
        std::max(maximum, cast_block<From, To>(from + begin, to + begin,
                                               std::min(kBlock, count - begin), factor, divide));
  }
  return maximum;
}

}  // namespace

void scaled_cast(const CastArrays& arrays, CastScale scale) {
  const float factor = cast_factor(scale);
  float maximum = 0;
  with_stored_type(arrays.from_type, [&]<typename From>(From) {
    with_stored_type(arrays.to_type, [&]<typename To>(To) {
      maximum = cast_all<From, To>(static_cast<const typename From::Word*>(arrays.from),
                                   static_cast<typename To::Word*>(arrays.to), arrays.count, factor,
                                   scale.divide);
    });
  });
  if (scale.absolute_maximum != nullptr)
    *scale.absolute_maximum = std::max(*scale.absolute_maximum, maximum);
}

void update_layer_scales(LayerScale* scales, const LayerMoments* layers, std::int64_t layer_count) {
  for (std::int64_t i = 0; i < layer_count; ++i) update_layer_scale(scales[i], layers[i]);
}

}  // namespace triaccel::kernels::cpu
