#include "triaccel/layers/convolution/kernel_choice.h"

#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/layers/convolution/gemm_convolution.h"

namespace triaccel {

const ConvolutionKernel& LayerKernels::of(Precision precision) const {
  switch (precision) {
    case Precision::Fp32:
      return fp32;
    case Precision::Bf16:
      return bf16;
    case Precision::Fp16:
      return fp16;
    case Precision::Int8:
      break;
  }
  throw UsageError("[KernelChoices] there are no floating-point kernels for int8 layers");
}

ConvolutionKernel& LayerKernels::of(Precision precision) {
  return const_cast<ConvolutionKernel&>(std::as_const(*this).of(precision));
}

const ConvolutionKernel& KernelChoices::of(std::int64_t layer, Precision precision) const {
  return layers.at(static_cast<std::size_t>(layer)).of(precision);
}

std::vector<ConvolutionKernel> kernel_candidates(Precision precision,
                                                 const ConvolutionGeometry& geometry,
                                                 c10::Device device) {
  if (!device.is_cpu()) return {fixed_kernel(precision, geometry, device)};
  std::vector<ConvolutionKernel> candidates;
  for (const auto algorithm : {ConvolutionAlgorithm::Gemm, ConvolutionAlgorithm::Stock}) {
    if (algorithm == ConvolutionAlgorithm::Gemm && !gemm_computes(geometry)) continue;
    candidates.push_back({algorithm, Arithmetic::Native});
    if (precision != Precision::Fp32) candidates.push_back({algorithm, Arithmetic::Fp32});
  }
  return candidates;
}

ConvolutionKernel fixed_kernel(Precision precision, const ConvolutionGeometry& geometry,
                               c10::Device device) {
  const ConvolutionKernel product = fixed_product_kernel(precision, device);
  if (!device.is_cpu()) return product;
  if (gemm_computes(geometry)) return {ConvolutionAlgorithm::Gemm, product.arithmetic};
  // libtorch's 16-bit convolutions on a CPU range from a little to a thousand times slower.
  return {ConvolutionAlgorithm::Stock,
          precision == Precision::Fp32 ? Arithmetic::Native : Arithmetic::Fp32};
}

ConvolutionKernel fixed_product_kernel(Precision precision, c10::Device device) {
  return {ConvolutionAlgorithm::Stock,
          missing_hardware(precision, device).empty() ? Arithmetic::Native : Arithmetic::Fp32};
}

}  // namespace triaccel
