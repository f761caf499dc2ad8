#include "triaccel/layers/execution/rounding.h"

#include <ATen/ATen.h>

#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

at::Tensor cut_out(const at::Tensor& weight, const WeightPart& part) {
  std::vector<at::Tensor> boxes;
  for (std::int64_t row = 0; row < part.boxes[0]; ++row)
    for (std::int64_t column = 0; column < part.boxes[1]; ++column) {
      const std::int64_t up = row * part.step[0], left = column * part.step[1];
      boxes.push_back(weight.slice(2, part.first_tap[0] - up, part.last_tap[0] - up)
                          .slice(3, part.first_tap[1] - left, part.last_tap[1] - left));
    }
  return at::cat(boxes).contiguous(weight.suggest_memory_format());
}

}  // namespace

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

at::Tensor weight_operand(const LayerWeight& weight, const WeightPart& part, Precision precision,
                          Arithmetic arithmetic) {
  const bool is_low = bytes_per_element(precision) < 4;
  const std::int64_t dimensions = weight.master.dim();
  if (weight.prepared != nullptr && is_low && arithmetic == Arithmetic::Native &&
      (dimensions == 2 || dimensions == 4))
    if (auto copy = weight.prepared->ask(weight.layer, part, scalar_type_of(precision)))
      return *copy;
  return operand(part == WeightPart{} ? weight.master : cut_out(weight.master, part), precision,
                 arithmetic);
}

}  // namespace triaccel
