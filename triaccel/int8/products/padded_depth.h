#pragma once

#include <cstdint>

#include "triaccel/base/divide_up.h"
#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

/// The row stride of product operands for rows of `depth`.
constexpr std::int32_t padded_depth(std::int32_t depth) { return round_up(depth, kDepthStep); }

}  // namespace triaccel::int8
