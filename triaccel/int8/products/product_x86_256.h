#pragma once

#include "triaccel/int8/products/product_x86.h"

namespace triaccel::int8 {
namespace {

/// Common parts of the two kernels with 256-bit registers.
struct Wide256 {
  using Vector = __m256i;
  static constexpr std::int32_t kLanes = 8;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::int8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  /// The only possible remainder of a padded depth is half a vector.
  static Vector load_part(const std::int8_t* from, std::int32_t) {
    return _mm256_zextsi128_si256(load16(from));
  }
  static Vector broadcast(std::int32_t word) { return _mm256_set1_epi32(word); }
  static Vector add(Vector left, Vector right) { return _mm256_add_epi32(left, right); }
  static Vector subtract(Vector left, Vector right) { return _mm256_sub_epi32(left, right); }

  static Vector first(std::int32_t lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vector load_lanes(const std::int32_t* from, std::int32_t lanes) {
    return _mm256_maskload_epi32(from, first(lanes));
  }
  static void store_lanes(std::int32_t* to, Vector values, std::int32_t lanes) {
    _mm256_maskstore_epi32(to, first(lanes), values);
  }
  static __m128i totals(Vector v0, Vector v1, Vector v2, Vector v3) {
    const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(v0, v1), _mm256_hadd_epi32(v2, v3));
    return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  }
};

}  // namespace
}  // namespace triaccel::int8
