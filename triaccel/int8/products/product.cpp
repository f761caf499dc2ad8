#include "triaccel/int8/products/product.h"

#include "triaccel/int8/products/product_variants.h"

#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__) && defined(__SSE2__)
#include <cpuid.h>
#endif

namespace triaccel::int8 {
namespace {

bool always() { return true; }

#if defined(__aarch64__) && defined(__ARM_NEON)

// Linux hardware-capability bits; older headers lack some of the names.
#if defined(__linux__)
bool has_dot_product() { return (getauxval(AT_HWCAP) >> 20 & 1) != 0; }
bool has_matrix_product() { return (getauxval(AT_HWCAP2) >> 13 & 1) != 0; }
#else
// On other systems, the compilation flags decide.
bool has_dot_product() {
#if defined(__ARM_FEATURE_DOTPROD)
  return true;
#else
  return false;
#endif
}
bool has_matrix_product() {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return true;
#else
  return false;
#endif
}
#endif

bool can_smmla() { return has_dot_product() && has_matrix_product(); }

#elif defined(__x86_64__) && defined(__SSE2__)

// __builtin_cpu_supports also checks operating-system support for wide registers.
bool can_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}

bool can_avx_vnni() {  // clang 14 does not support its name
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return can_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

bool can_vnni() {
  return can_avx2() && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}

#endif

constexpr ProductKernel kKernels[] = {
    {"scalar", always, product_scalar},
#if defined(__aarch64__) && defined(__ARM_NEON)
    {"neon", always, product_neon},
    {"sdot", has_dot_product, product_sdot},
    {"smmla", can_smmla, product_smmla},
#elif defined(__x86_64__) && defined(__SSE2__)
    {"avx2", can_avx2, product_avx2},
    {"avxvnni", can_avx_vnni, product_avx_vnni},
    {"vnni", can_vnni, product_vnni},
#endif
};
constexpr std::int32_t kCount = sizeof(kKernels) / sizeof(kKernels[0]);

bool equal(const char* left, const char* right) {
  while (*left != '\0' && *left == *right) {
    ++left;
    ++right;
  }
  return *left == *right;
}

}  // namespace

void product_scalar(const ProductShape& shape, const std::int8_t* a, const std::int8_t* b,
                    std::int32_t* c) {
  const std::int64_t depth = shape.depth;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * b[j * depth + k];
      c[i * shape.c_stride + j] = sum;
    }
  }
}

const ProductKernel* product_kernels(std::int32_t& count) {
  count = kCount;
  return kKernels;
}

const ProductKernel* find_product_kernel(const char* name) {
  const bool fastest = equal(name, "auto");
  for (std::int32_t i = kCount - 1; i >= 0; --i) {
    if (fastest ? kKernels[i].available() : equal(name, kKernels[i].name)) return &kKernels[i];
  }
  return nullptr;
}

}  // namespace triaccel::int8
