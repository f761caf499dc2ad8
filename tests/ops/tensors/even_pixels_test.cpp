#include "triaccel/ops/tensors/even_pixels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/ops/tensors/channels_last.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(EvenPixels, AreWhatSlicesOfStrideTwoTake) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const Sizes& sizes :
         std::vector<Sizes>{Sizes{2, 8, 6, 4}, Sizes{3, 16, 5, 7}, Sizes{1, 24, 1, 1},
                            Sizes{2, 8, 1, 9}, Sizes{0, 8, 4, 4}, Sizes{5, 64, 33, 31}}) {
      const at::Tensor map = channels_last(sizes, type);
      ASSERT_TRUE(takes_even_pixels(map)) << at::IntArrayRef(sizes);
      const at::Tensor even = even_pixels(map), back = scatter_even_pixels(even, sizes);
      EXPECT_TRUE(at::equal(even, map.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2)));
      EXPECT_TRUE(even.is_contiguous(at::MemoryFormat::ChannelsLast));
      at::Tensor wanted = at::zeros_like(map);
      wanted.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2).copy_(even);
      EXPECT_TRUE(at::equal(back, wanted)) << at::IntArrayRef(sizes);
    }
}

TEST(EvenPixels, RefuseMapsThatTheKernelsDoNotTake) {
  EXPECT_FALSE(takes_even_pixels({}));
  EXPECT_FALSE(takes_even_pixels(at::ones({2, 8, 4, 4})));
  EXPECT_FALSE(takes_even_pixels(channels_last({2, 6, 4, 4}, at::kBFloat16)));
  EXPECT_FALSE(takes_even_pixels(at::ones({8, 8})));
  EXPECT_THROW(even_pixels(at::ones({2, 8, 4, 4})), UsageError);
  EXPECT_THROW(scatter_even_pixels(channels_last({2, 8, 2, 2}, at::kFloat), {2, 8, 5, 4}),
               UsageError);
}

}  // namespace
}  // namespace triaccel
