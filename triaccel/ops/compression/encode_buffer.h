#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace triaccel {

/// Where an encoder writes: a contiguous tensor of so many elements of a type, without values, on
/// the device of what is coded and aligned to 16 bytes there. Null: one of its own.
using CodeRoom = std::function<at::Tensor(std::int64_t count, at::ScalarType type)>;

}  // namespace triaccel
