#pragma once

#include <ATen/ATen.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/conv/depthwise_cases.h"
#include "triaccel/kernels/conv/max_pool.h"

namespace triaccel::kernels {

inline std::string described(const PoolShape& s) {
  return text(s.rows.window, "x", s.columns.window, " stride ", s.rows.stride, ",",
              s.columns.stride, " padding ", s.rows.padding, ",", s.columns.padding, " on ",
              s.images, "x", s.channels, "x", s.rows.input, "x", s.columns.input, " of type ",
              static_cast<int>(s.type));
}

/// Windows with and without overlap, gaps and padding, square or not; odd sizes; pixels that no
/// window sees; one window for all.
inline std::vector<PoolShape> pool_shapes(const std::vector<std::int64_t>& channels) {
  struct Axes {
    WindowAxis rows, columns;
  };
  const Axes axes[] = {{fitted_windows(16, 3, 2, 1), fitted_windows(16, 3, 2, 1)},
                       {fitted_windows(7, 3, 2, 1), fitted_windows(9, 3, 2, 0)},
                       {fitted_windows(7, 2, 2, 0), fitted_windows(5, 2, 2, 1)},
                       {fitted_windows(1, 3, 2, 1), fitted_windows(1, 3, 2, 1)},
                       {fitted_windows(2, 3, 2, 1), fitted_windows(3, 3, 2, 1)},
                       {fitted_windows(17, 3, 2, 1), fitted_windows(5, 3, 2, 1)},
                       {fitted_windows(17, 3, 2, 0), fitted_windows(6, 3, 2, 0)},
                       {fitted_windows(3, 3, 2, 0), fitted_windows(5, 3, 2, 0)},
                       {fitted_windows(5, 2, 2, 0), fitted_windows(17, 2, 2, 0)},
                       {fitted_windows(3, 2, 2, 0), fitted_windows(2, 2, 2, 0)},
                       {fitted_windows(2, 2, 2, 1), fitted_windows(1, 2, 2, 1)},
                       {fitted_windows(9, 3, 1, 1), fitted_windows(6, 3, 1, 1)},
                       {fitted_windows(11, 2, 3, 1), fitted_windows(8, 5, 4, 2)},
                       {fitted_windows(15, 15, 1, 0), fitted_windows(17, 17, 5, 8)}};
  std::vector<PoolShape> shapes;
  for (const Axes& a : axes)
    for (const std::int64_t count : channels)
      for (const FloatType type : kFloatTypes)
        shapes.push_back(
            {.images = 3, .channels = count, .rows = a.rows, .columns = a.columns, .type = type});
  return shapes;
}

/// Whole numbers, so that many are equal, with NaN, infinities and zeros of both signs among them,
/// and a channel that is negative infinity throughout.
inline at::Tensor awkward_map(const PoolShape& s) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor map =
      at::randint(-6, -1, {s.images, s.rows.input, s.columns.input, s.channels}, at::kFloat);
  const at::Tensor dice = at::rand_like(map);
  map.masked_fill_(dice < 0.05, std::numeric_limits<double>::quiet_NaN());
  map.masked_fill_(dice > 0.95, -infinity);
  map.masked_fill_((dice > 0.5) & (dice < 0.52), infinity);
  map.masked_fill_((dice > 0.6) & (dice < 0.65), 0.0);
  map.masked_fill_((dice > 0.7) & (dice < 0.75), -0.0);
  map.select(3, 0).fill_(-infinity);
  return map.to(torch_type_of(s.type));
}

inline at::Tensor output_gradient_of(const PoolShape& s) {
  return at::randn({s.images, s.rows.output, s.columns.output, s.channels})
      .to(torch_type_of(s.type));
}

/// All [image][row][column][channel].
struct PoolResults {
  at::Tensor values, taps, map_gradient;
};

/// What a back end gives: pool(map, values, taps) and gradient(dy, taps, dx) run it.
template <typename Pool, typename Gradient>
PoolResults pool_results(const at::Tensor& map, const at::Tensor& output_gradient, Pool pool,
                         Gradient gradient) {
  PoolResults r = {
      at::full_like(output_gradient, 12345),
      at::full(output_gradient.sizes(), 255, output_gradient.options().dtype(at::kByte)),
      at::full_like(map, 12345)};
  auto* taps = r.taps.data_ptr<std::uint8_t>();
  pool(map.data_ptr(), r.values.data_ptr(), taps);
  gradient(output_gradient.data_ptr(), taps, r.map_gradient.data_ptr());
  return r;
}

inline PoolResults pooled_on_cpu(const PoolShape& s, const at::Tensor& map,
                                 const at::Tensor& output_gradient) {
  return pool_results(
      map, output_gradient,
      [&](const void* from, void* to, std::uint8_t* taps) { cpu::max_pool(s, from, to, taps); },
      [&](const void* dy, const std::uint8_t* taps, void* dx) {
        cpu::max_pool_gradient(s, dy, nullptr, taps, dx);
      });
}

/// Equal and of equal sign, a NaN being equal to a NaN.
inline bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor numbers_of_a = at::nan_to_num(a), numbers_of_b = at::nan_to_num(b);
  return at::equal(a.isnan(), b.isnan()) && at::equal(numbers_of_a, numbers_of_b) &&
         at::equal(numbers_of_a.signbit(), numbers_of_b.signbit());
}

}  // namespace triaccel::kernels
