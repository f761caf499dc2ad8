#pragma once

#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

// The implementations product.cpp selects from. All but the scalar one need instructions not
// available on every CPU, so their sources are compiled with their own flags and must not use
// inline functions of shared headers: the linker might keep the copy that only the newest CPU can
// run.
using ProductFunction = void(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                             std::int32_t* c);
ProductFunction product_scalar;

// Without vector registers (-mgeneral-regs-only) only the scalar kernel exists.
#if defined(__aarch64__) && defined(__ARM_NEON)
ProductFunction product_neon, product_sdot, product_smmla;
#elif defined(__x86_64__) && defined(__SSE2__)
ProductFunction product_avx2, product_avx_vnni, product_vnni;
#endif

}  // namespace triaccel::int8
