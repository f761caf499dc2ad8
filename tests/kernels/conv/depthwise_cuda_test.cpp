#include "triaccel/kernels/conv/depthwise.h"

#include "tests/kernels/common/cuda_fixture.h"
#include "tests/kernels/conv/depthwise_cases.h"

namespace triaccel::kernels {
namespace {

class DepthwiseOnCuda : public CudaTest {
 protected:
  DepthwiseResults computed_on_cuda(const DepthwiseShape& s, const DepthwiseMaps& maps) {
    DepthwiseResults found = empty_results(s, maps);
    const auto* weight = maps.weight.const_data_ptr<float>();
    cuda::depthwise_forward(s, maps.input.data_ptr(), weight, found.output.data_ptr(), stream());
    cuda::depthwise_input_gradient(s, maps.output_gradient.data_ptr(), weight,
                                   found.input_gradient.data_ptr(), stream());
    const at::Tensor scratch = at::full({depthwise_scratch(s)}, 12345.0f, maps.weight.options());
    cuda::depthwise_weight_gradient(s, maps.output_gradient.data_ptr(), maps.input.data_ptr(),
                                    scratch.data_ptr<float>(),
                                    found.weight_gradient.data_ptr<float>(), stream());
    return found;
  }

  DepthwiseMaps on_device(const DepthwiseMaps& maps) {
    return {maps.input.to(device_), maps.weight.to(device_), maps.output_gradient.to(device_)};
  }

  void expect_as_on_the_cpu(const DepthwiseShape& shape) {
    const DepthwiseMaps maps = random_maps(shape), device = on_device(maps);
    const DepthwiseResults first = computed_on_cuda(shape, device);
    const DepthwiseResults again = computed_on_cuda(shape, device);
    EXPECT_TRUE(at::equal(first.output, again.output)) << described(shape);
    EXPECT_TRUE(at::equal(first.input_gradient, again.input_gradient)) << described(shape);
    EXPECT_TRUE(at::equal(first.weight_gradient, again.weight_gradient)) << described(shape);
    DepthwiseShape exact = shape;
    exact.type = FloatType::F32;
    const auto magnitude = [](const at::Tensor& tensor) { return tensor.to(at::kFloat).abs(); };
    expect_close({first.output.cpu(), first.input_gradient.cpu(), first.weight_gradient.cpu()},
                 computed_on_cpu(shape, maps),
                 computed_on_cpu(exact, {magnitude(maps.input), magnitude(maps.weight),
                                         magnitude(maps.output_gradient)}),
                 described(shape));
  }
};

TEST_F(DepthwiseOnCuda, MatchesTheCpuOnOddSizes) {
  for (const DepthwiseShape& shape :
       depthwise_shapes(3, {1, 3, 8, 24, 34, 40}, {{1, 1}, {2, 2}, {3, 1}, {7, 5}, {11, 13}}))
    ASSERT_NO_FATAL_FAILURE(expect_as_on_the_cpu(shape));
}

TEST_F(DepthwiseOnCuda, MatchesTheCpuWhereBlocksLeavePartialSums) {
  for (const DepthwiseShape& shape : depthwise_shapes(7, {32, 72}, {{8, 8}, {47, 53}}))
    ASSERT_NO_FATAL_FAILURE(expect_as_on_the_cpu(shape));
}

TEST_F(DepthwiseOnCuda, MatchesTheCpuOnManySmallMaps) {
  for (const DepthwiseShape& shape : depthwise_shapes(96, {1152}, {{1, 1}, {2, 2}}))
    ASSERT_NO_FATAL_FAILURE(expect_as_on_the_cpu(shape));
}

TEST_F(DepthwiseOnCuda, TakesAnyPaddingLessThanTheFilter) {
  for (const int filter : {3, 5})
    for (const int stride : {1, 2})
      for (std::int64_t padding = 0; padding < filter; ++padding)
        ASSERT_NO_FATAL_FAILURE(
            expect_as_on_the_cpu({.images = 2,
                                  .channels = 16,
                                  .rows = padded_axis(9, filter, stride, padding),
                                  .columns = padded_axis(6, filter, stride, filter - 1 - padding),
                                  .filter = filter,
                                  .stride = stride,
                                  .type = FloatType::Bf16}));
}

TEST_F(DepthwiseOnCuda, TakesNoImages) {
  const DepthwiseShape shape = {.images = 0, .channels = 8};
  const DepthwiseMaps maps = on_device(random_maps(shape));
  EXPECT_EQ(computed_on_cuda(shape, maps).weight_gradient.abs().max().item<float>(), 0.0f);
}

/// The last rows of a map beyond 2^31 elements, against the same rows as a map of their own.
TEST_F(DepthwiseOnCuda, ReachesElementsBeyondThirtyTwoBits) {
  DepthwiseShape shape = {.images = 2,
                          .channels = 64,
                          .rows = padded_axis(4099, 3, 1, 1),
                          .columns = padded_axis(4096, 3, 1, 1),
                          .type = FloatType::Bf16};
  const auto options = at::TensorOptions(at::kBFloat16).device(device_);
  try {
    const DepthwiseMaps maps = {at::randn({2, 4099, 4096, 64}, options),
                                at::randn({64, 3, 3}, options.dtype(at::kFloat)), at::Tensor()};
    const at::Tensor output = at::empty_like(maps.input), gradient = at::empty_like(maps.input);
    const auto* weight = maps.weight.const_data_ptr<float>();
    cuda::depthwise_forward(shape, maps.input.data_ptr(), weight, output.data_ptr(), stream());
    cuda::depthwise_input_gradient(shape, maps.input.data_ptr(), weight, gradient.data_ptr(),
                                   stream());
    const auto last = [](const at::Tensor& map, std::int64_t rows) {
      return map.narrow(0, 1, 1).narrow(1, 4099 - rows, rows).contiguous();
    };
    shape.images = 1;
    shape.rows = padded_axis(8, 3, 1, 1);
    const at::Tensor rows = last(maps.input, 8), rows_output = at::empty_like(rows),
                     rows_gradient = at::empty_like(rows);
    cuda::depthwise_forward(shape, rows.data_ptr(), weight, rows_output.data_ptr(), stream());
    cuda::depthwise_input_gradient(shape, rows.data_ptr(), weight, rows_gradient.data_ptr(),
                                   stream());
    EXPECT_TRUE(at::equal(last(output, 7), rows_output.narrow(1, 1, 7)));
    EXPECT_TRUE(at::equal(last(gradient, 7), rows_gradient.narrow(1, 1, 7)));
  } catch (const c10::OutOfMemoryError&) {
    GTEST_SKIP() << "the device has less than 13 GB free";
  }
}

}  // namespace
}  // namespace triaccel::kernels
