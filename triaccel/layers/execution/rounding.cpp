#include "triaccel/layers/execution/rounding.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"

namespace triaccel {

at::ScalarType scalar_type_of(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return at::kFloat;
    case Precision::Bf16:
      return at::kBFloat16;
    case Precision::Fp16:
      return at::kHalf;
    case Precision::Int8:
      break;
  }
  throw UsageError("[layers] int8 layers are not computed by floating-point products");
}

at::Tensor operand(const at::Tensor& tensor, Precision precision, Arithmetic arithmetic) {
  const at::Tensor rounded = tensor.to(scalar_type_of(precision));
  return arithmetic == Arithmetic::Fp32 ? rounded.to(at::kFloat) : rounded;
}

}  // namespace triaccel
