#include "triaccel/layers/weight_operand.h"

#include <ATen/ATen.h>

#include "triaccel/layers/rounding.h"

namespace triaccel {
namespace {

at::Tensor cut_out(at::Tensor weight, const WeightPart& part) {
  const at::MemoryFormat format = weight.suggest_memory_format();
  for (std::size_t i = 0; i < 2; ++i)
    weight = weight.slice(static_cast<std::int64_t>(i) + 2, part.first_tap[i], part.last_tap[i]);
  return weight.contiguous(format);
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
