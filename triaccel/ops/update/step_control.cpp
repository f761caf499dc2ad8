#include "triaccel/ops/update/step_control.h"

#include <ATen/ATen.h>

#include "triaccel/ops/tensors/tensor_check.h"

namespace triaccel {

kernels::StepControl* step_control_of(std::string_view who, const at::Tensor& step_control,
                                      const at::Device& device) {
  check_contiguous(who, "step_control", step_control, device, at::kByte,
                   {std::int64_t{sizeof(kernels::StepControl)}});
  return reinterpret_cast<kernels::StepControl*>(step_control.mutable_data_ptr<std::uint8_t>());
}

}  // namespace triaccel
