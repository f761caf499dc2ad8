#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/compression/groups/group_codec.h"

namespace triaccel::kernels::cuda {

void encode_groups(const GroupCoding&, const void*, void*, std::int32_t*, cudaStream_t) {
  no_cuda("encode_groups");
}

void decode_groups(const GroupCoding&, const void*, void*, const CodecMap&, const ChannelOrder&,
                   cudaStream_t) {
  no_cuda("decode_groups");
}

}  // namespace triaccel::kernels::cuda
