#include "triaccel/ops/update/weight_copies.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/ops/update/weight_copies_case.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(WeightCopies, HoldTheRoundedPartOfEveryWeight) {
  const std::vector<WeightCopySpec> specs = awkward_specs(at::kCPU);
  WeightCopies copies(specs);
  copies.refresh();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const at::Tensor expected = expected_copy(specs[i]);
    EXPECT_EQ(copies.copy(i).scalar_type(), specs[i].type);
    EXPECT_EQ(copies.copy(i).sizes(), expected.sizes()) << "spec " << i;
    EXPECT_TRUE(at::allclose(copies.copy(i), expected, 0, 0, /*equal_nan=*/true)) << "spec " << i;
  }
}

TEST(WeightCopies, FollowTheWeightInPlace) {
  const at::Tensor weight = at::randn({8, 4, 3, 3}).requires_grad_();
  WeightCopies copies({{.weight = weight, .type = at::kHalf}});
  copies.refresh();
  const void* address = copies.copy(0).data_ptr();
  {
    const at::NoGradGuard no_gradient;
    weight.mul_(2);
  }
  copies.refresh();
  EXPECT_EQ(copies.copy(0).data_ptr(), address);
  EXPECT_TRUE(at::equal(copies.copy(0), weight.detach().to(at::kHalf)));
  EXPECT_FALSE(copies.copy(0).requires_grad());
}

TEST(WeightCopies, AreChannelsLastWhereTheirWeightIs) {
  const at::Tensor weight = at::randn({8, 4, 3, 3});
  const WeightCopySpec last = {.weight = weight.contiguous(at::MemoryFormat::ChannelsLast),
                               .part = {.first_tap = {1, 1}, .last_tap = {2, 2}}};
  const WeightCopies copies({{.weight = weight}, last, {.weight = weight.permute({2, 0, 3, 1})}});
  EXPECT_TRUE(copies.copy(0).is_contiguous());
  EXPECT_EQ(copies.copy(1).suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(copies.copy(1).sizes(), at::IntArrayRef({8, 4, 1, 1}));
  EXPECT_TRUE(copies.copy(2).is_contiguous());
}

TEST(WeightCopies, RefuseWhatTheyCannotCopy) {
  const at::Tensor weight = at::randn({2, 3, 3, 3});
  const auto expect_refused = [](const WeightCopySpec& spec) {
    EXPECT_THROW(WeightCopies(std::vector{spec}), UsageError);
  };
  expect_refused({.weight = at::Tensor()});
  expect_refused({.weight = at::randn({3})});
  expect_refused({.weight = weight.to(at::kDouble)});
  expect_refused({.weight = weight, .type = at::kFloat});
  expect_refused({.weight = weight, .part = {.last_tap = {4, 0}}});
  expect_refused({.weight = weight, .part = {.first_tap = {2, 0}, .last_tap = {2, 0}}});
  expect_refused({.weight = weight, .part = {.boxes = {0, 1}}});
  expect_refused(
      {.weight = weight,
       .part = {.first_tap = {1, 1}, .last_tap = {3, 3}, .boxes = {1, 3}, .step = {1, 1}}});
}

TEST(WeightCopies, MayBeOfNothing) {
  WeightCopies none(std::vector<WeightCopySpec>{});
  EXPECT_NO_THROW(none.refresh());
  EXPECT_THROW(none.copy(0), std::out_of_range);
}

TEST(WholeGradient, IsThePartWithZerosAround) {
  for (const GradientPart& test : awkward_parts(at::kCPU)) {
    const at::Tensor whole = whole_gradient(test.part, test.weight, test.first, test.last);
    EXPECT_EQ(whole.strides(), test.weight.strides());
    EXPECT_TRUE(at::equal(whole, test.expected())) << test.part.sizes() << " " << test.part.dtype();
  }
  const at::Tensor weight = at::randn({4, 3}), part = at::randn({4, 3});
  EXPECT_TRUE(at::equal(whole_gradient(part, weight, {}, {}), part)) << "a matrix has no taps";
}

TEST(WholeGradient, RefusesAPartThatDoesNotFit) {
  const at::Tensor weight = at::randn({4, 3, 3, 3});
  EXPECT_THROW(whole_gradient(at::randn({4, 3, 2, 1}), weight, {1, 1}, {2, 2}), UsageError);
  EXPECT_THROW(whole_gradient(at::randn({4, 2, 1, 1}), weight, {1, 1}, {2, 2}), UsageError);
  EXPECT_THROW(whole_gradient(at::randn({4, 5, 1, 1}), weight, {1, 1}, {2, 2}), UsageError);
  EXPECT_THROW(whole_gradient(at::randn({4, 3, 1, 1}), weight, {1, 3}, {2, 4}), UsageError);
  EXPECT_THROW(whole_gradient(at::randn({4, 3}), weight, {1, 1}, {2, 2}), UsageError);
}

}  // namespace
}  // namespace triaccel
