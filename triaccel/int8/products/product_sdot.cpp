#if defined(__aarch64__)

#include "triaccel/int8/products/product_arm.h"

namespace triaccel::int8 {
namespace {

struct DotProduct {
  static int32x4_t add(int32x4_t sum, int8x16_t a, int8x16_t b) { return vdotq_s32(sum, a, b); }
};

}  // namespace

void product_sdot(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c) {
  arm_product<DotProduct>(shape, a, b, c);
}

}  // namespace triaccel::int8

#endif
