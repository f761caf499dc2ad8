#include "triaccel/kernels/map_convolution.h"

#include <gtest/gtest.h>

#include "tests/kernels/map_convolution_cases.h"
#include "tests/kernels/tensor_core_oracle.h"
#include "triaccel/kernels/map_convolution_work.h"

namespace triaccel::kernels {
namespace {

struct Exact {
  at::Tensor output, input_gradient;
};

/// In FP64 by libtorch.
Exact computed(const MapConvolutionCase& c, at::Tensor map, const at::Tensor& weight,
               const at::Tensor& gradient) {
  map.requires_grad_();
  const at::Tensor output =
      at::conv2d(map, weight, {}, {c.stride, c.stride}, {c.padding, c.padding});
  output.backward(gradient);
  return {output.detach(), map.grad()};
}

TEST(MapConvolution, IsThatOfLibtorchInFp64) {
  at::manual_seed(1);
  for (const MapConvolutionCase& c : map_convolution_cases()) {
    const MapTensors t(c);
    const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
    const Exact exact = computed(c, wide(t.map), wide(t.weight), wide(t.gradient));
    const Exact magnitude =
        computed(c, wide(t.map).abs(), wide(t.weight).abs(), wide(t.gradient).abs());
    const at::Tensor output = t.empty_output();
    cpu::map_convolution(c.shape(), t.map.data_ptr(), t.weight.data_ptr(), output.data_ptr());
    EXPECT_TRUE(is_close(output, exact.output, magnitude.output)) << c.name();
    if (c.stride != 1) continue;
    const at::Tensor gradient = t.empty_input_gradient();
    cpu::map_input_gradient(c.shape(), t.gradient.data_ptr(), t.weight.data_ptr(),
                            gradient.data_ptr());
    EXPECT_TRUE(is_close(gradient, exact.input_gradient, magnitude.input_gradient)) << c.name();
  }
}

TEST(MapConvolution, SharesFewTilesAmongTheBlocksOfClusters) {
  const auto cut = [](std::int64_t samples, std::int64_t channels, std::int64_t map) {
    const MapConvolutionCase c{samples, channels, channels, map, map, 3, 3, 1, 1};
    return cut_map_product(forward_product(c.shape()));
  };
  EXPECT_EQ(cut(96, 64, 8)->blocks, 1);   // 96 tiles of 9 steps
  EXPECT_EQ(cut(96, 128, 4)->blocks, 2);  // 48 of 18
  EXPECT_EQ(cut(96, 256, 2)->blocks, 4);  // 24 of 36
  EXPECT_EQ(cut(1, 512, 4)->blocks, 8);
  EXPECT_EQ(cut(1, 64, 1)->blocks, 2) << "too short for more";
  EXPECT_EQ(cut(96, 256, 2)->planes, 1) << "each block of four reads a quarter of the channels";
  EXPECT_EQ(cut(96, 128, 4)->samples, 4);
  EXPECT_FALSE(cut(96, 64, 7)) << "49 pixels";
  EXPECT_FALSE(cut(96, 64, 16)) << "256 pixels";
}

/// Every step is some block's, and lies in planes that it has room for.
TEST(MapConvolution, DealsOutAllStepsOfASum) {
  for (const MapConvolutionCase& c : map_convolution_cases())
    for (const MapProduct& product : {forward_product(c.shape()), gradient_product(c.shape())}) {
      const auto cut = cut_map_product(product);
      if (!cut) continue;
      std::int32_t next = 0;
      for (std::int32_t rank = 0; rank < cut->blocks; ++rank) {
        const StepRange range = steps_of(*cut, rank);
        EXPECT_EQ(range.begin, next);
        EXPECT_LT(range.begin, range.end);
        const std::int32_t first = range.begin / product.taps();
        EXPECT_LE((range.end - 1) / product.taps() - first, cut->planes - 1) << c.name();
        next = range.end;
      }
      EXPECT_EQ(next, cut->steps);
      EXPECT_LE(map_shared_bytes(*cut), 227 << 10);
    }
}

/// Eight rows that a matrix is loaded from, 16 bytes each, must lie in different banks, and so must
/// the eight chunks of a row that neighbouring threads copy.
TEST(MapConvolution, KeepsTheRowsOfAMatrixInDifferentBanks) {
  const auto banks_are_different = [](auto place) {
    unsigned seen = 0;
    for (int i = 0; i < 8; ++i) seen |= 1u << place(i) % 8;
    return seen == 0xff;
  };
  for (int lane = 0; lane < 32; lane += 8)
    for (int first = 0; first < kMapTile; first += 16)
      for (int inner = 0; inner < 4; ++inner)
        for (const auto matrix : {pixel_matrix, channel_matrix, turned_channel_matrix})
          EXPECT_TRUE(banks_are_different([&](int i) {
            const TileRow at = matrix(lane + i, first, inner);
            return tile_chunk(at.row, at.chunk);
          }));
  for (int row = 0; row < kMapTile; ++row)
    EXPECT_TRUE(banks_are_different([&](int i) { return tile_chunk(row, i); }));
}

/// A tile [64][64] as it lies in shared memory.
std::vector<double> placed_tile(const at::Tensor& values) {
  const auto from = values.accessor<double, 2>();
  std::vector<double> tile(kMapTile * kMapTile);
  for (std::int32_t row = 0; row < kMapTile; ++row)
    for (std::int32_t column = 0; column < kMapTile; ++column)
      tile[static_cast<std::size_t>(tile_chunk(row, column / 8) * 8 + column % 8)] =
          from[row][column];
  return tile;
}

template <typename Matrix>
std::array<const double*, 32> rows_given(const std::vector<double>& tile, Matrix matrix,
                                         std::int32_t first, std::int32_t inner) {
  std::array<const double*, 32> rows = {};
  for (std::int32_t lane = 0; lane < 32; ++lane) {
    const TileRow at = matrix(lane, first, inner);
    rows[static_cast<std::size_t>(lane)] = tile.data() + tile_chunk(at.row, at.chunk) * 8;
  }
  return rows;
}

/// One step of a tile's sum in slow motion: what each warp loads and multiplies.
at::Tensor emulated_step(const at::Tensor& pixels, const at::Tensor& channels, bool turned) {
  const std::vector<double> a = placed_tile(pixels), b = placed_tile(channels);
  at::Tensor product = at::zeros({kMapTile, kMapTile}, at::kDouble);
  auto to = product.accessor<double, 2>();
  for (std::int32_t pixel = 0; pixel < kMapTile; pixel += 16)
    for (std::int32_t channel = 0; channel < kMapTile; channel += 16) {
      std::array<LaneSums, 2> sums = {};
      for (std::int32_t inner = 0; inner < kMapTile / 16; ++inner) {
        const auto of_channels =
            turned ? loaded(rows_given(b, turned_channel_matrix, channel, inner), true)
                   : loaded(rows_given(b, channel_matrix, channel, inner), false);
        Fragments f = {.a = loaded(rows_given(a, pixel_matrix, pixel, inner), false)};
        for (std::size_t j = 0; j < 2; ++j) {
          for (std::size_t lane = 0; lane < 32; ++lane)
            f.b[lane] = {of_channels[lane][j * 2], of_channels[lane][j * 2 + 1]};
          multiply(f, sums[j]);
        }
      }
      for (std::int32_t lane = 0; lane < 32; ++lane)
        for (std::int32_t j = 0; j < 2; ++j)
          for (std::int32_t n = 0; n < 4; ++n)
            to[pixel + lane / 4 + n / 2 * 8][channel + 8 * j + lane % 4 * 2 + n % 2] =
                sums[static_cast<std::size_t>(j)][static_cast<std::size_t>(lane)]
                    [static_cast<std::size_t>(n)];
    }
  return product;
}

TEST(MapConvolution, LoadsTheMatricesThatTheProductNeeds) {
  at::manual_seed(2);
  const auto whole = [] { return at::randint(-9, 10, {kMapTile, kMapTile}).to(at::kDouble); };
  const at::Tensor pixels = whole(), channels = whole();
  EXPECT_TRUE(at::equal(emulated_step(pixels, channels, false), at::mm(pixels, channels.t())));
  EXPECT_TRUE(at::equal(emulated_step(pixels, channels, true), at::mm(pixels, channels)));
}

}  // namespace
}  // namespace triaccel::kernels
