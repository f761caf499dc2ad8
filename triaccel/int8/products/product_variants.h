#pragma once

#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

// The implementations product.cpp selects from. All but the scalar one need instructions not
// available on every CPU, so their sources are compiled with their own flags and must not use
// inline functions of shared headers: the linker might keep the copy that only the newest CPU can
// run.
void product_scalar(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                    std::int32_t* c);

// Without vector registers (-mgeneral-regs-only) only the scalar kernel exists.
#if defined(__aarch64__) && defined(__ARM_NEON)
void product_neon(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c);
void product_sdot(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c);
void product_smmla(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                   std::int32_t* c);
#elif defined(__x86_64__) && defined(__SSE2__)
void product_avx2(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c);
void product_avx_vnni(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                      std::int32_t* c);
void product_vnni(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c);
#endif

}  // namespace triaccel::int8
