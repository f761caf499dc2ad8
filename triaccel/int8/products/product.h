#pragma once

#include <cstdint>

namespace triaccel::int8 {

/// Rows of both operands are padded with zeros to multiples of this many bytes, so that no kernel
/// needs a remainder loop along the depth.
inline constexpr std::int32_t kDepthStep = 16;

/// The longest dot product whose int32 sum cannot overflow: 127 · 127 · K < 2^31.
inline constexpr std::int32_t kMostDepth = 133144;

/// Shape of a product, in elements.
struct ProductShape {
  std::int32_t rows = 0;     // of a and c
  std::int32_t columns = 0;  // rows of b, columns of c
  std::int32_t depth = 0;    // row stride of a and b: a multiple of kDepthStep, at most kMostDepth
  std::int32_t c_stride = 0;
};

/// c[i][j] = Σ_k a[i][k] · b[j][k], exact: int8 operands in [-127, 127], raw int32 sums. All
/// implementations are bit-identical.
using Product = void (*)(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                         std::int32_t* c);

/// One implementation of the product.
struct ProductKernel {
  const char* name = "";          // scalar; neon, sdot, smmla; avx2, avxvnni, vnni
  bool (*available)() = nullptr;  // whether this CPU can run it
  Product product = nullptr;
};

/// All kernels in this build, scalar first and fastest last; `count` receives their number.
const ProductKernel* product_kernels(std::int32_t& count);

/// The kernel named `name`, or null. "auto": the fastest this CPU supports.
const ProductKernel* find_product_kernel(const char* name);

}  // namespace triaccel::int8
