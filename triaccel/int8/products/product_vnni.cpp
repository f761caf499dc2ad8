#if defined(__x86_64__)

#include "triaccel/int8/products/product_x86.h"

namespace triaccel::int8 {
namespace {

/// AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes. A signed factor is offset by 128,
/// and 128 times the sum of the other operand is subtracted. Sums wrap around, so intermediate
/// overflow is harmless.
struct Avx512Vnni {
  using Vector = __m512i;
  static constexpr std::int32_t kLanes = 16;
  static constexpr int kRowsOfOnePanel = 12;
  static constexpr int kRowsOfTwoPanels = 8;
  static constexpr std::int32_t kRowsPay = 32;

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const std::int8_t* from) { return _mm512_loadu_si512(from); }
  static Vector load_part(const std::int8_t* from, std::int32_t bytes) {
    return _mm512_maskz_loadu_epi8((__mmask64{1} << bytes) - 1, from);
  }
  static Vector broadcast(std::int32_t word) { return _mm512_set1_epi32(word); }
  static Vector add(Vector left, Vector right) { return _mm512_add_epi32(left, right); }
  static Vector subtract(Vector left, Vector right) { return _mm512_sub_epi32(left, right); }

  template <bool kSigned>
  static Vector factor(Vector values) {
    return kSigned ? _mm512_xor_si512(values, _mm512_set1_epi8(-128)) : values;
  }
  static Vector dot(Vector sum, Vector unsigned_factor, Vector values) {
    // Inline assembly: with the intrinsic, GCC 12 adds copies of every sum.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_factor), "v"(values));
    return sum;
  }
  static Vector add_excess(Vector sum, Vector values) {
    return dot(sum, _mm512_set1_epi8(-128), values);
  }
  template <bool kSigned>
  static Vector correction(const std::int8_t* panel, std::int32_t count, std::int32_t stride) {
    return kSigned ? less_excess<Avx512Vnni>(panel, count, stride) : zero();
  }

  static __mmask16 first(std::int32_t lanes) { return static_cast<__mmask16>((1u << lanes) - 1); }
  static Vector load_lanes(const std::int32_t* from, std::int32_t lanes) {
    return _mm512_maskz_loadu_epi32(first(lanes), from);
  }
  static void store_lanes(std::int32_t* to, Vector values, std::int32_t lanes) {
    _mm512_mask_storeu_epi32(to, first(lanes), values);
  }
  /// Masked forms, since GCC 12 warns about uninitialized values for the plain ones.
  static __m256i halves(Vector v) {
    return _mm256_add_epi32(_mm512_maskz_extracti64x4_epi64(0xff, v, 0),
                            _mm512_maskz_extracti64x4_epi64(0xff, v, 1));
  }
  static __m128i totals(Vector v0, Vector v1, Vector v2, Vector v3) {
    const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(halves(v0), halves(v1)),
                                           _mm256_hadd_epi32(halves(v2), halves(v3)));
    return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  }
};

}  // namespace

void product_vnni(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                  std::int32_t* c) {
  x86_product<Avx512Vnni>(shape, a, b, c);
}

}  // namespace triaccel::int8

#endif
