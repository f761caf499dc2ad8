#include "triaccel/kernels/common/no_cuda.h"
#include "triaccel/kernels/common/bias.h"
#include "triaccel/kernels/common/even_pixels.h"
#include "triaccel/kernels/common/fill.h"
#include "triaccel/kernels/common/skinny_gemm.h"

namespace triaccel::kernels::cuda {

FillKernel fill_kernel(const Fill&) { no_cuda("fill_kernel"); }

void take_even_pixels(const EvenPixels&, std::int64_t, const void*, void*, cudaStream_t) {
  no_cuda("take_even_pixels");
}

void spread_even_pixels(const EvenPixels&, std::int64_t, const void*, void*, cudaStream_t) {
  no_cuda("spread_even_pixels");
}

void add_bias(const BiasedMatrix&, const float*, void*, cudaStream_t) { no_cuda("add_bias"); }

void bias_gradient(const BiasedMatrix&, const void*, float*, float*, cudaStream_t) {
  no_cuda("bias_gradient");
}

void skinny_gemm(const SkinnyGemm&, const void*, const void*, const float*, void*, cudaStream_t) {
  no_cuda("skinny_gemm");
}

void skinny_input_gradient(const SkinnyGemm&, const void*, const void*, void*, cudaStream_t) {
  no_cuda("skinny_input_gradient");
}

}  // namespace triaccel::kernels::cuda
