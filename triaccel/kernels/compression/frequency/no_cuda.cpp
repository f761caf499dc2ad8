#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/compression/frequency/frequency_codec.h"
#include "triaccel/kernels/compression/frequency/predicted_codec.h"

namespace triaccel::kernels::cuda {

void encode_frequency(const FrequencyCoding&, const void*, std::uint8_t*, std::int32_t*,
                      cudaStream_t) {
  no_cuda("encode_frequency");
}

void decode_frequency(const FrequencyCoding&, const std::uint8_t*, void*, const CodecMap&,
                      cudaStream_t) {
  no_cuda("decode_frequency");
}

void encode_predicted(const PredictedCoding&, const void*, std::uint8_t*, PredictionCounts*,
                      std::int32_t*, cudaStream_t) {
  no_cuda("encode_predicted");
}

void decode_predicted(const PredictedCoding&, const std::uint8_t*, void*, cudaStream_t) {
  no_cuda("decode_predicted");
}

}  // namespace triaccel::kernels::cuda
