#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/compression/channel_levels.h"

namespace triaccel::kernels::cuda {

void level_channels(const MapsToLevel&, const void*, void*, float*, float*, cudaStream_t) {
  no_cuda("level_channels");
}

}  // namespace triaccel::kernels::cuda
