#include "triaccel/int8/products/product_variants.h"

namespace triaccel::int8 {

void product_scalar(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                    std::int32_t* c) {
  const std::int64_t depth = shape.depth;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * b[j * depth + k];
      c[i * shape.c_stride + j] = sum;
    }
  }
}

}  // namespace triaccel::int8
