#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/compression/nonzeros/nonzero_codec.h"

namespace triaccel::kernels::cuda {

void encode_nonzeros(const NonZeroCoding&, const void*, NonZeroMask, void*, std::int32_t*,
                     cudaStream_t) {
  no_cuda("encode_nonzeros");
}

void decode_nonzeros(const NonZeroCoding&, const std::uint32_t*, const void*, void*, cudaStream_t) {
  no_cuda("decode_nonzeros");
}

}  // namespace triaccel::kernels::cuda
