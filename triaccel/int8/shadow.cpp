#include "triaccel/int8/shadow.h"

#include "triaccel/base/error.h"

namespace triaccel::int8 {

void check_product(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   const std::int32_t* c) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < shape.depth; ++k)
        sum += std::int64_t{a[i * shape.depth + k]} * b[j * shape.depth + k];
      ensure(sum == c[i * shape.c_stride + j], "sum of a product fits int32 and is exact");
    }
  }
}

void check_scaled_sum(const std::int8_t* values, std::int32_t count, std::int32_t factor,
                      const std::int32_t* sums) {
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int64_t sum = sums[i] + std::int64_t{factor} * values[i];
    ensure(sum == static_cast<std::int32_t>(sum), "sum of a gradient fits int32");
  }
}

}  // namespace triaccel::int8
