#include "triaccel/kernels/common/no_cuda.h"
#include "bench/papers/baseline_codecs/split_codec.h"
#include "bench/papers/baseline_codecs/three_pass_codec.h"

namespace triaccel::kernels::cuda {

void encode_plain_groups(const PlainGroupCoding&, const void*, void*, float*, std::int32_t*,
                         cudaStream_t) {
  no_cuda("encode_plain_groups");
}

void decode_plain_groups(const PlainGroupCoding&, const void*, void*, cudaStream_t) {
  no_cuda("decode_plain_groups");
}

void encode_split(const SplitCoding&, const void*, void*, float*, std::int32_t*, cudaStream_t) {
  no_cuda("encode_split");
}

void decode_split(const SplitCoding&, const void*, void*, cudaStream_t) { no_cuda("decode_split"); }

}  // namespace triaccel::kernels::cuda
