#include "triaccel/layers/execution/weight_operand.h"

#include <ATen/ATen.h>

#include <vector>

#include "triaccel/layers/execution/rounding.h"

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
