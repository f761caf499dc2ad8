#if defined(__aarch64__)

#include "triaccel/int8/products/product_arm.h"

namespace triaccel::int8 {
namespace {

/// Baseline of 64-bit Arm. Two products fit 16 bits: 2 · 127 · 127 = 32,258.
struct Neon {
  static int32x4_t add(int32x4_t sum, int8x16_t a, int8x16_t b) {
    const int16x8_t pairs = vmlal_high_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), a, b);
    return vpadalq_s16(sum, pairs);
  }
};

}  // namespace

void product_neon(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c) {
  arm_product<Neon>(shape, a, b, c);
}

}  // namespace triaccel::int8

#endif
