#pragma once

#include "bench/papers/baseline_codecs/three_pass_codec_math.h"

namespace triaccel::kernels::cuda {

/// Of all lanes of a warp, in every lane.
__device__ inline PlainExtremes warp_extremes(PlainExtremes found) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const PlainExtremes others = {__shfl_xor_sync(0xffffffffu, found.least, step),
                                  __shfl_xor_sync(0xffffffffu, found.largest, step)};
    found.add(others);
  }
  return found;
}

}  // namespace triaccel::kernels::cuda
