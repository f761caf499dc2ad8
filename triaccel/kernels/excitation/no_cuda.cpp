#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/excitation/channel_gate.h"
#include "triaccel/kernels/excitation/squeeze_excite.h"

namespace triaccel::kernels::cuda {

void pixel_sum(const ChannelMaps&, const PixelSum&, cudaStream_t) { no_cuda("pixel_sum"); }

void channel_gate(const ChannelMaps&, const ChannelGate&, cudaStream_t) { no_cuda("channel_gate"); }

bool excite_fits(const ExciteShape&) { return false; }

void excite_forward(const ExciteShape&, const ExciteLayers&, const ExciteForward&, cudaStream_t) {
  no_cuda("excite_forward");
}

void excite_backward(const ExciteShape&, const ExciteLayers&, const ExciteBackward&, cudaStream_t) {
  no_cuda("excite_backward");
}

void excite_parameters(const ExciteShape&, const ExciteParameters&, cudaStream_t) {
  no_cuda("excite_parameters");
}

}  // namespace triaccel::kernels::cuda
