#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/precision.h"
#include "triaccel/layers/convolution/convolution.h"

namespace triaccel {

/// How one layer computes in each precision. A linear layer's algorithm is always Stock.
struct LayerKernels {
  ConvolutionKernel fp32 = {};
  ConvolutionKernel bf16 = {};
  ConvolutionKernel fp16 = {};
  bool operator==(const LayerKernels&) const = default;

  ConvolutionKernel& of(Precision precision);
  const ConvolutionKernel& of(Precision precision) const;
};

/// How every layer computes in every precision. Chosen once per run, by measurement or by rule, and
/// stored with it: the choice decides how results are rounded.
struct KernelChoices {
  std::vector<LayerKernels> layers = {};  // index = LayerId
  bool operator==(const KernelChoices&) const = default;

  const ConvolutionKernel& of(std::int64_t layer, Precision precision) const;
};

/// "gemm", "gemm/fp32", "stock" or "stock/fp32".
std::string name_of(ConvolutionKernel kernel);

/// "0,2-4:fp32=gemm,bf16=gemm,fp16=gemm/fp32;1:fp32=stock,…": layers of equal choice together.
std::string to_text(const KernelChoices& choices);

/// Reads what to_text wrote for a network of that many layers; UsageError says what is wrong.
KernelChoices kernel_choices_from(std::string_view text, std::int64_t layers);

/// What can compute a convolution in a precision on a device, likely winners first.
std::vector<ConvolutionKernel> kernel_candidates(Precision precision,
                                                 const ConvolutionGeometry& geometry,
                                                 c10::Device device);

/// The same kernel on every run, from what the hardware is known to have.
ConvolutionKernel fixed_kernel(Precision precision, const ConvolutionGeometry& geometry,
                               c10::Device device);

/// The same for the products of a linear layer.
ConvolutionKernel fixed_product_kernel(Precision precision, c10::Device device);

}  // namespace triaccel
