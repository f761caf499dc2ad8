#if defined(__x86_64__)

#include "triaccel/int8/products/product_x86.h"

namespace triaccel::int8 {
namespace {

/// AVX2: vpmaddubsw multiplies unsigned by signed bytes and adds pairs in saturating 16 bits. With
/// the factor's magnitude in one operand and its sign applied to the other, a pair is at most 2 ·
/// 127 · 127 = 32,258: exact.
struct Avx2 : Wide256 {
  static constexpr int kRowsOfOnePanel = 4;
  static constexpr int kRowsOfTwoPanels = 4;
  static constexpr std::int32_t kRowsPay = 32;

  template <bool kSigned>
  struct Factor {
    Vector values;
    Vector magnitude;
  };

  template <bool kSigned>
  static Factor<kSigned> factor(Vector values) {
    return {values, kSigned ? _mm256_abs_epi8(values) : values};
  }
  template <bool kSigned>
  static Vector dot(Vector sum, const Factor<kSigned>& factor, Vector values) {
    const Vector other = kSigned ? _mm256_sign_epi8(values, factor.values) : values;
    const Vector pairs = _mm256_maddubs_epi16(factor.magnitude, other);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Vector add_excess(Vector sum, Vector) { return sum; }
  template <bool kSigned>
  static Vector correction(const std::int8_t*, std::int32_t, std::int32_t) {
    return zero();
  }
};

}  // namespace

void product_avx2(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c) {
  x86_product<Avx2>(shape, a, b, c);
}

}  // namespace triaccel::int8

#endif
