#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/compression/masks/bit_mask_codec.h"
#include "triaccel/kernels/compression/masks/window_codec.h"

namespace triaccel::kernels::cuda {

void encode_mask(MaskedArray, const void*, MaskTest, std::uint32_t*, cudaStream_t) {
  no_cuda("encode_mask");
}

void decode_mask(MaskedArray, const std::uint32_t*, MaskValue, void*, cudaStream_t) {
  no_cuda("decode_mask");
}

void encode_windows(const WindowPlaces&, const std::int64_t*, std::uint32_t*, cudaStream_t) {
  no_cuda("encode_windows");
}

void decode_windows(const WindowPlaces&, const std::uint32_t*, std::int64_t*, cudaStream_t) {
  no_cuda("decode_windows");
}

}  // namespace triaccel::kernels::cuda
