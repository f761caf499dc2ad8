#pragma once

#include <cstdint>

#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

/// Whether this build also computes every sum in int64 and throws on a difference.
#ifdef TRIACCEL_INT8_SHADOW
inline constexpr bool kShadow = true;
#else
inline constexpr bool kShadow = false;
#endif

/// Throws std::logic_error unless c is the product of a and b in int64.
void check_product(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   const std::int32_t* c);

/// Throws std::logic_error if sums + factor · values overflows int32.
void check_scaled_sum(const std::int8_t* values, std::int32_t count, std::int32_t factor,
                      const std::int32_t* sums);

inline void checked_product(Product product, const ProductShape& shape, const std::int8_t* a,
                            const std::int8_t* b, std::int32_t* c) {
  product(shape, a, b, c);
  if constexpr (kShadow) check_product(shape, a, b, c);
}

}  // namespace triaccel::int8
