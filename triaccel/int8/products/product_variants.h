#pragma once

#include "triaccel/int8/products/product.h"

namespace triaccel::int8 {

// What product.cpp chooses from. Each of the others needs instructions not every CPU has, so
// its source is compiled with flags of its own and nothing in it may be shared with the rest of
// the program: no inline function of a header, or the linker may keep the copy that only the
// newest CPU can run.
void product_scalar(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                    std::int32_t* c);

// Where vector registers are forbidden (-mgeneral-regs-only), the plain kernel is the only one.
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
