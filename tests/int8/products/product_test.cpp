#include "triaccel/int8/products/product.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "triaccel/base/random.h"

namespace triaccel::int8 {
namespace {

enum class Values { Random, NonNegative, Extreme, Largest };

/// A product with `slack` bytes before its operands and guard words around its result.
struct Case {
  ProductShape shape;
  std::vector<std::int8_t> a, b;
  std::size_t slack = 0;

  Case(const ProductShape& s, Values values, std::size_t misaligned = 0)
      : shape(s),
        a(filled(s.rows, values, misaligned, 1)),
        b(filled(s.columns, values, misaligned, 2)),
        slack(misaligned) {}

  std::vector<std::int8_t> filled(std::int32_t rows, Values values, std::size_t misaligned,
                                  std::uint64_t seed) const {
    std::vector<std::int8_t> out(misaligned + static_cast<std::size_t>(rows * shape.depth));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint32_t word = random_words(seed, i).words[0];
      const auto magnitude = static_cast<std::int32_t>(bounded(word, 128));
      const bool negative = word % 2 == 1;
      std::int32_t value = 127;
      if (values == Values::Random) value = negative ? -magnitude : magnitude;
      if (values == Values::NonNegative) value = seed == 1 ? magnitude : magnitude - 127;
      if (values == Values::Extreme) value = negative ? -127 : 127;
      out[i] = static_cast<std::int8_t>(value);
    }
    return out;
  }

  /// The result with its guards: rows of c_stride words, of which `columns` may be written.
  std::vector<std::int32_t> by(Product product) const {
    const auto words = static_cast<std::size_t>(shape.rows * shape.c_stride) + 1;
    std::vector<std::int32_t> c(words, -77);
    product(shape, a.data() + slack, b.data() + slack, c.data());
    return c;
  }
};

std::vector<ProductKernel> runnable() {
  std::int32_t count = 0;
  const ProductKernel* kernels = product_kernels(count);
  std::vector<ProductKernel> out;
  for (std::int32_t i = 0; i < count; ++i)
    if (kernels[i].available()) out.push_back(kernels[i]);
  return out;
}

void expect_equal_everywhere(const Case& example) {
  const auto expected = example.by(find_product_kernel("scalar")->product);
  for (const ProductKernel& kernel : runnable()) {
    EXPECT_EQ(example.by(kernel.product), expected)
        << kernel.name << " of " << example.shape.rows << " x " << example.shape.columns << " x "
        << example.shape.depth;
  }
}

TEST(Product, IsWhatTheFormulaSays) {
  const ProductShape shape{.rows = 2, .columns = 2, .depth = 16, .c_stride = 2};
  std::vector<std::int8_t> a(32), b(32);
  a[0] = 3, a[15] = -127, a[16] = 5;
  b[0] = -2, b[15] = -127, b[31] = 100;
  for (const ProductKernel& kernel : runnable()) {
    std::vector<std::int32_t> c(4, -1);
    kernel.product(shape, a.data(), b.data(), c.data());
    EXPECT_EQ(c, (std::vector<std::int32_t>{-6 + 127 * 127, -12700, -10, 0})) << kernel.name;
  }
}

TEST(Product, HasTheSameBitsFromEveryKernel) {
  for (const std::int32_t depth : {16, 32, 48, 64, 80, 160, 496, 512, 528, 784, 1040}) {
    for (const std::int32_t rows : {1, 2, 3, 5, 8, 17, 29}) {
      for (const std::int32_t columns : {1, 4, 6, 10, 17, 33}) {
        const ProductShape shape{rows, columns, depth, columns + columns % 3};
        expect_equal_everywhere({shape, Values::Random});
      }
    }
  }
}

TEST(Product, HasTheSameBitsForTheShapesOfLeNet) {
  const ProductShape shapes[] = {{784, 6, 32, 6},
                                 {196, 16, 160, 16},
                                 {32, 120, 784, 120},
                                 {32, 84, 128, 84},
                                 {32, 10, 96, 10}};
  for (const ProductShape& shape : shapes) {
    expect_equal_everywhere({shape, Values::NonNegative});
    expect_equal_everywhere({shape, Values::Extreme});
  }
}

TEST(Product, IsExactAtTheExtremes) {
  for (const Values values : {Values::Extreme, Values::Largest}) {
    for (const std::int32_t rows : {1, 9, 40})
      expect_equal_everywhere({{.rows = rows, .columns = 7, .depth = 800, .c_stride = 7}, values});
    const std::int32_t longest = kMostDepth / kDepthStep * kDepthStep;
    expect_equal_everywhere({{.rows = 2, .columns = 3, .depth = longest, .c_stride = 3}, values});
  }
}

TEST(Product, NeedsNoAlignment) {
  for (const std::size_t misaligned : {1u, 7u, 16u}) {
    for (const std::int32_t rows : {1, 21})
      expect_equal_everywhere({{rows, 19, 112, 23}, Values::Random, misaligned});
  }
}

TEST(FindProductKernel, TakesTheFastestThisCpuCanRun) {
  const ProductKernel* fastest = find_product_kernel("auto");
  ASSERT_NE(fastest, nullptr);
  EXPECT_STREQ(fastest->name, runnable().back().name);
}

TEST(FindProductKernel, KnowsItsKernelsByName) {
  std::int32_t count = 0;
  const ProductKernel* kernels = product_kernels(count);
  for (std::int32_t i = 0; i < count; ++i)
    EXPECT_EQ(find_product_kernel(kernels[i].name), &kernels[i]);
  EXPECT_STREQ(kernels[0].name, "scalar");
  EXPECT_EQ(find_product_kernel("sdo"), nullptr);
}

}  // namespace
}  // namespace triaccel::int8
