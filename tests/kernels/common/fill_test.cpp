#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "triaccel/kernels/common/fill.h"

namespace triaccel::kernels {
namespace {

constexpr std::uint8_t kUntouched = 0x5c;

/// What the threads of the GPU would leave, run one after another, in memory that begins at a
/// multiple of 16 and goes on behind the fill.
std::vector<std::uint8_t> filled(std::size_t begin, std::int64_t bytes, std::uint32_t pattern,
                                 std::int64_t threads) {
  std::vector<FillVector> memory(static_cast<std::size_t>(bytes) / sizeof(FillVector) + 4);
  auto* const first = reinterpret_cast<std::uint8_t*>(memory.data());
  const std::size_t size = memory.size() * sizeof(FillVector);
  std::fill_n(first, size, kUntouched);
  for (std::int64_t thread = 0; thread < threads; ++thread)
    fill_share({.to = first + begin, .bytes = bytes, .pattern = pattern}, thread, threads);
  return {first, first + size};
}

TEST(Fill, WritesItsBytesAndNoOthers) {
  for (const unsigned element_bytes : {1u, 2u, 4u})
    for (const std::int64_t elements : {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 100, 1021})
      for (std::size_t begin = 0; begin < 20; begin += element_bytes)
        for (const std::int64_t threads : {1, 5, 256}) {
          const std::uint32_t value = 0x94837261u;
          const std::int64_t bytes = elements * element_bytes;
          const auto memory = filled(begin, bytes, fill_pattern(value, element_bytes), threads);
          for (std::size_t i = 0; i < memory.size(); ++i) {
            const bool inside = i >= begin && i < begin + static_cast<std::size_t>(bytes);
            const std::uint32_t wanted =
                inside ? value >> (8 * ((i - begin) % element_bytes)) & 0xffu : kUntouched;
            ASSERT_EQ(memory[i], wanted)
                << "byte " << i << " of " << elements << " elements of " << element_bytes
                << " bytes from " << begin << " on, by " << threads << " threads";
          }
        }
}

}  // namespace
}  // namespace triaccel::kernels
