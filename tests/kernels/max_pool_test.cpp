#include "triaccel/kernels/max_pool.h"

#include "tests/kernels/max_pool_cases.h"

namespace triaccel::kernels {
namespace {

/// libtorch's index of a pixel of the map, from our number of a tap.
at::Tensor indices_of(const PoolShape& s, const at::Tensor& taps) {
  const at::Tensor tap = taps.to(at::kLong);
  const at::Tensor row = at::arange(s.rows.output).view({1, -1, 1, 1}) * s.rows.stride -
                         s.rows.padding + tap.div(s.columns.window, "floor");
  const at::Tensor column = at::arange(s.columns.output).view({1, 1, -1, 1}) * s.columns.stride -
                            s.columns.padding + tap.remainder(s.columns.window);
  return row * s.columns.input + column;
}

TEST(MaxPool, ChoosesAsLibtorchDoes) {
  at::manual_seed(1);
  for (const PoolShape& s : pool_shapes({1, 5, 8})) {
    const at::Tensor map = awkward_map(s), dy = output_gradient_of(s);
    const PoolResults found = pooled_on_cpu(s, map, dy);
    const auto [values, indices] = at::max_pool2d_with_indices(
        map.permute({0, 3, 1, 2}), {s.rows.window, s.columns.window},
        {s.rows.stride, s.columns.stride}, {s.rows.padding, s.columns.padding});
    ASSERT_TRUE(same_numbers(found.values, values.permute({0, 2, 3, 1}))) << described(s);
    ASSERT_TRUE(at::equal(indices_of(s, found.taps), indices.permute({0, 2, 3, 1})))
        << described(s);
  }
}

TEST(MaxPool, GathersTheGradientThatLibtorchScatters) {
  at::manual_seed(2);
  for (const PoolShape& s : pool_shapes({1, 5, 8})) {
    const at::Tensor map = awkward_map(s), dy = output_gradient_of(s);
    const PoolResults found = pooled_on_cpu(s, map, dy);
    const auto scattered = [&](const at::Tensor& gradient) {
      return at::max_pool2d_with_indices_backward(
                 gradient.permute({0, 3, 1, 2}).contiguous(),
                 map.permute({0, 3, 1, 2}).to(at::kDouble).contiguous(),
                 {s.rows.window, s.columns.window}, {s.rows.stride, s.columns.stride},
                 {s.rows.padding, s.columns.padding}, {1, 1}, false,
                 indices_of(s, found.taps).permute({0, 3, 1, 2}).contiguous())
          .permute({0, 2, 3, 1});
    };
    const at::Tensor exact = dy.to(at::kDouble);
    expect_close(found.map_gradient, scattered(exact), scattered(exact.abs()), described(s));
  }
}

}  // namespace
}  // namespace triaccel::kernels
