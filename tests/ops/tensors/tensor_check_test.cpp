#include "triaccel/ops/tensors/tensor_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

void check(const at::Tensor& map, std::size_t alignment = 1) {
  check_map("test", "map", map, at::kCPU, at::kFloat, {2, 3, 4, 5}, alignment);
}

TEST(CheckMap, TakesADenseChannelsLastMapOfTheShapeAlone) {
  const at::Tensor map = at::empty({2, 3, 4, 5}, at::kFloat, at::MemoryFormat::ChannelsLast);
  EXPECT_NO_THROW(check(map));
  EXPECT_NO_THROW(check(map, 16));
  EXPECT_THROW(check({}), UsageError);
  EXPECT_THROW(check(map.to(at::kHalf)), UsageError);
  EXPECT_THROW(check(map.narrow(0, 0, 1)), UsageError);
  EXPECT_THROW(check(map.contiguous()), UsageError);
}

TEST(CheckMap, RefusesAMapBetweenTwoMultiplesOfTheAlignment) {
  const at::Tensor shifted =
      at::empty({121}).narrow(0, 1, 120).view({2, 4, 5, 3}).permute({0, 3, 1, 2});
  EXPECT_NO_THROW(check(shifted));
  EXPECT_NO_THROW(check(shifted, 4));
  EXPECT_THROW(check(shifted, 8), UsageError);
}

}  // namespace
}  // namespace triaccel
