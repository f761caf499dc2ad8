#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace triaccel {

/// One tensor as it is kept between forward and backward, shared by all who saved it.
struct SavedRecord {
  std::int64_t bytes = 0;
  std::function<at::Tensor()> decode = {};  // dense; the same each time; only enqueues
};

using SharedRecord = std::shared_ptr<const SavedRecord>;

}  // namespace triaccel
