#include "triaccel/kernels/conv/max_pool.h"

#include "tests/kernels/conv/max_pool_cases.h"

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

TEST(MaxPool, AddsASecondGradientFirst) {
  at::manual_seed(4);
  for (const PoolShape& s : pool_shapes({5, 8})) {
    const at::Tensor map = awkward_map(s), dy = output_gradient_of(s);
    const at::Tensor second = output_gradient_of(s);
    const PoolResults wanted = pooled_on_cpu(s, map, dy + second);
    const at::Tensor found = at::full_like(map, 12345);
    cpu::max_pool_gradient(s, dy.data_ptr(), second.data_ptr(),
                           wanted.taps.data_ptr<std::uint8_t>(), found.data_ptr());
    ASSERT_TRUE(same_numbers(found, wanted.map_gradient)) << described(s);
  }
}

/// What the GPU does at the border instead of leaving taps out.
TEST(NearestInside, LeavesEveryWindowItsMaximumAndTap) {
  at::manual_seed(3);
  for (const PoolShape& s : pool_shapes({5})) {
    if (s.type != FloatType::F32) continue;
    const at::Tensor map = awkward_map(s);
    const PoolResults wanted = pooled_on_cpu(s, map, output_gradient_of(s));
    const at::Tensor values = at::empty_like(wanted.values), taps = at::empty_like(wanted.taps);
    const auto pixels = map.accessor<float, 4>();
    const auto place = [](const WindowAxis& axis, std::int64_t window, std::int64_t tap) {
      return nearest_inside(static_cast<std::int32_t>(window * axis.stride - axis.padding + tap),
                            static_cast<std::int32_t>(axis.input));
    };
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const std::int64_t channel = i % s.channels, window = i / s.channels;
      const std::int64_t column = window % s.columns.output, line = window / s.columns.output;
      const std::int64_t row = line % s.rows.output, image = line / s.rows.output;
      const std::int64_t y = row * s.rows.stride - s.rows.padding;
      const std::int64_t x = column * s.columns.stride - s.columns.padding;
      float best = -std::numeric_limits<float>::infinity();
      std::int64_t where =
          (place(s.rows, row, 0) - y) * s.columns.window + place(s.columns, column, 0) - x;
      for (std::int64_t tap = 0; tap < s.rows.window * s.columns.window; ++tap) {
        const std::int64_t at_row = place(s.rows, row, tap / s.columns.window);
        const std::int64_t at_column = place(s.columns, column, tap % s.columns.window);
        const float value = pixels[image][at_row][at_column][channel];
        if (!replaces(value, best)) continue;
        best = value;
        where = (at_row - y) * s.columns.window + at_column - x;
      }
      values.data_ptr<float>()[i] = best;
      taps.data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(where);
    }
    ASSERT_TRUE(same_numbers(values, wanted.values)) << described(s);
    ASSERT_TRUE(at::equal(taps, wanted.taps)) << described(s);
  }
}

struct SeenThrough {
  std::int64_t window, tap;
  bool operator==(const SeenThrough&) const = default;
};

template <int kWindow, int kPadding>
void expect_all_windows_over_pairs() {
  using Windows = WindowsOverPair<kWindow, kPadding>;
  for (std::int64_t size = 1; size < 20; ++size) {
    const WindowAxis axis = fitted_windows(size, kWindow, 2, kPadding);
    for (std::int64_t position = 0; position < size; ++position) {
      std::vector<SeenThrough> wanted, found;
      for (std::int64_t window = 0; window < axis.output; ++window) {
        const std::int64_t tap = position + kPadding - 2 * window;
        if (tap >= 0 && tap < kWindow) wanted.push_back({window, tap});
      }
      for (int i = 0; i < Windows::kCount; ++i) {
        const std::int64_t window = position / 2 + Windows::kFirst + i;
        const int tap = Windows::tap(i, static_cast<int>(position % 2));
        if (tap >= 0 && window >= 0 && window < axis.output) found.push_back({window, tap});
      }
      EXPECT_EQ(found, wanted) << kWindow << " taps, padding " << kPadding << ", position "
                               << position << " of " << size;
    }
  }
}

TEST(WindowsOverPair, AreAllThatSeeAPosition) {
  expect_all_windows_over_pairs<3, 1>();
  expect_all_windows_over_pairs<3, 0>();
  expect_all_windows_over_pairs<2, 1>();
  expect_all_windows_over_pairs<2, 0>();
  EXPECT_EQ((WindowsOverPair<3, 1>::kCount), 2);  // no more are loaded than needed
  EXPECT_EQ((WindowsOverPair<2, 0>::kCount), 1);
}

}  // namespace
}  // namespace triaccel::kernels
