#pragma once

#include "triaccel/kernels/compression/block_transform.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

namespace triaccel::kernels::cuda {

/// codec_mapped with SiLU in six instructions: the norm is one multiplication with what follows
/// from the channel alone. Off in the last bits, as SiLU may be.
class NormedSilu {
 public:
  __device__ explicit NormedSilu(const NormCoefficients& norm = {})
      : scale_(norm.scale), shift_(norm.bias - norm.mean * norm.scale) {}

  __device__ float operator()(float x) const { return silu(fused(x, scale_, shift_)); }

 private:
  float scale_, shift_;
};

}  // namespace triaccel::kernels::cuda
