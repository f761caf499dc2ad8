#if defined(__x86_64__)

#include "triaccel/int8/products/product_x86.h"

namespace triaccel::int8 {
namespace {

/// AVX-VNNI: like product_vnni.cpp, for CPUs with vpdpbusd but without AVX-512.
struct AvxVnni : Wide256 {
  static constexpr int kRowsOfOnePanel = 8;
  static constexpr int kRowsOfTwoPanels = 6;
  static constexpr std::int32_t kRowsPay = 32;

  template <bool kSigned>
  static Vector factor(Vector values) {
    return kSigned ? _mm256_xor_si256(values, _mm256_set1_epi8(-128)) : values;
  }
  static Vector dot(Vector sum, Vector unsigned_factor, Vector values) {
    // Inline assembly: with the intrinsic, GCC 12 adds copies of every sum.
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(unsigned_factor), "x"(values));
    return sum;
  }
  static Vector add_excess(Vector sum, Vector values) {
    return dot(sum, _mm256_set1_epi8(-128), values);
  }
  template <bool kSigned>
  static Vector correction(const std::int8_t* panel, std::int32_t count, std::int32_t stride) {
    return kSigned ? less_excess<AvxVnni>(panel, count, stride) : zero();
  }
};

}  // namespace

void product_avx_vnni(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                      std::int32_t* c) {
  x86_product<AvxVnni>(shape, a, b, c);
}

}  // namespace triaccel::int8

#endif
