#include "triaccel/saved/raw_tensor.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"

namespace triaccel {

at::Tensor RawTensor::value() const {
  require(data_._version() == version_, "backward", "a tensor of sizes ", data_.sizes(),
          " that backward needs was changed in place after forward saved it (version ",
          data_._version(), ", saved at ", version_, "); use the operator that makes a new tensor");
  return data_;
}

}  // namespace triaccel
