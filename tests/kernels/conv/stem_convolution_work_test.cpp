#include "triaccel/kernels/conv/stem_convolution_work.h"

#include <array>
#include <cmath>

#include "tests/kernels/common/tensor_core_oracle.h"
#include "tests/kernels/conv/stem_convolution_cases.h"

namespace triaccel::kernels {
namespace {

// The device kernels in slow motion: the same loops over tiles, warps, steps and lanes, by the same
// functions for what lies where, with mma and ldmatrix as the PTX ISA defines them.

struct Place {
  std::int64_t image, row, column;  // of a tile's first window
};

Place place_of(const StemTiles& tiles, std::int64_t tile) {
  const std::int64_t line = tile / tiles.column_tiles;
  return {line / tiles.row_tiles, line % tiles.row_tiles * tiles.rows,
          tile % tiles.column_tiles * tiles.columns};
}

using Word = std::array<double, 4>;  // four channels
constexpr Word kUnwritten = {NAN, NAN, NAN, NAN};

/// A tile in shared memory.
std::vector<Word> tile_at(const StemConvolutionShape& s, const StemTiles& tiles,
                          const at::Tensor& images, const Place& place) {
  const auto x = images.accessor<double, 4>();
  std::vector<Word> tile(static_cast<std::size_t>(tiles.seen_rows * tiles.pitch), kUnwritten);
  for (std::int64_t row = 0; row < tiles.seen_rows; ++row)
    for (std::int64_t column = 0; column < tiles.seen_columns; ++column) {
      const std::int64_t iy = place.row * s.rows.stride - s.rows.padding + row;
      const std::int64_t ix = place.column * s.columns.stride - s.columns.padding + column;
      Word& word = tile[static_cast<std::size_t>(row * tiles.pitch + column)];
      word = {};
      if (iy < 0 || iy >= seen_end(s.rows) || ix < 0 || ix >= seen_end(s.columns)) continue;
      for (std::int64_t c = 0; c < s.channels; ++c)
        word[static_cast<std::size_t>(c)] = x[place.image][c][iy][ix];
    }
  return tile;
}

/// Whether a tile's window is one of the output; its place there.
bool in_output(const StemConvolutionShape& s, const StemTiles& tiles, const Place& place,
               std::int32_t window, std::int64_t& row, std::int64_t& column) {
  row = place.row + window / tiles.columns;
  column = place.column + window % tiles.columns;
  return window < tiles.windows() && row < s.rows.output && column < s.columns.output;
}

std::int32_t pixel_of(const StemConvolutionShape& s, const StemTiles& tiles, std::int32_t window,
                      std::int32_t tap) {
  return window_pixel(tiles, static_cast<std::int32_t>(s.rows.stride),
                      static_cast<std::int32_t>(s.columns.stride), window) +
         tap_pixel(tiles, static_cast<std::int32_t>(image_taps(s)),
                   static_cast<std::int32_t>(s.columns.window), tap);
}

/// The weights of a group of filters in shared memory.
std::vector<Pair> weights_of(const StemConvolutionShape& s, const at::Tensor& weight,
                             std::int64_t group, std::int32_t filters, std::int32_t steps) {
  const at::Tensor flat = weight.reshape({s.filters, image_taps(s), s.channels});
  const auto w = flat.accessor<double, 3>();
  std::vector<Pair> pairs(static_cast<std::size_t>(steps * pairs_a_step(filters)), {NAN, NAN});
  for (std::int32_t f = 0; f < filters; ++f)
    for (std::int32_t tap = 0; tap < steps * kStepTaps; ++tap) {
      const auto place = static_cast<std::size_t>(weight_pair(filters, f, tap));
      Word word = {};
      const std::int64_t filter = group * filters + f;
      for (std::int64_t c = 0; filter < s.filters && tap < image_taps(s) && c < s.channels; ++c)
        word[static_cast<std::size_t>(c)] = w[filter][tap][c];
      EXPECT_TRUE(std::isnan(pairs[place][0]) && std::isnan(pairs[place + kOtherChannels][0]))
          << "two taps in one place";
      pairs[place] = {word[0], word[1]};
      pairs[place + kOtherChannels] = {word[2], word[3]};
    }
  return pairs;
}

at::Tensor emulated_forward(const StemConvolutionShape& s, const StemTiles& tiles,
                            const at::Tensor& images, const at::Tensor& weight) {
  const FilterGroups groups = group_filters(s.filters);
  const auto filters = static_cast<std::int32_t>(groups.filters);
  const std::int32_t matrices = filters / 16;
  const auto steps = static_cast<std::int32_t>(divide_up(image_taps(s), kStepTaps));
  at::Tensor output =
      at::full({s.images, s.rows.output, s.columns.output, s.filters}, NAN, at::kDouble);
  auto y = output.accessor<double, 4>();
  for (std::int64_t group = 0; group < groups.count; ++group) {
    const std::vector<Pair> weights = weights_of(s, weight, group, filters, steps);
    for (std::int64_t which = 0; which < tiles.count; ++which) {
      const Place place = place_of(tiles, which);
      const std::vector<Word> tile = tile_at(s, tiles, images, place);
      for (std::int32_t first = 0; first < tiles.windows(); first += 8) {
        std::vector<LaneSums> sums(static_cast<std::size_t>(matrices));
        for (std::int32_t step = 0; step < steps; ++step)
          for (std::int32_t matrix = 0; matrix < matrices; ++matrix) {
            Fragments f;
            for (std::int32_t lane = 0; lane < 32; ++lane) {
              const auto l = static_cast<std::size_t>(lane);
              const Word& pixel = tile[static_cast<std::size_t>(
                  pixel_of(s, tiles, first + lane / 4, step * kStepTaps + lane % 4))];
              f.b[l] = {Pair{pixel[0], pixel[1]}, Pair{pixel[2], pixel[3]}};
              const std::int32_t share = step * pairs_a_step(filters) + (matrix * 32 + lane) * 4;
              for (std::size_t r = 0; r < 4; ++r)
                f.a[l][r] = weights[static_cast<std::size_t>(share) + r];
            }
            multiply(f, sums[static_cast<std::size_t>(matrix)]);
          }
        for (std::int32_t lane = 0; lane < 32; ++lane)
          for (std::int32_t i = 0; i < 2; ++i) {
            std::int64_t row, column;
            const std::int64_t filter = group * filters + filter_of(matrices, 0, lane / 4);
            if (filter >= s.filters ||
                !in_output(s, tiles, place, first + lane % 4 * 2 + i, row, column))
              continue;
            for (std::int32_t f = 0; f < 2 * matrices; ++f) {
              double& to = y[place.image][row][column][filter + f];
              EXPECT_TRUE(std::isnan(to)) << "written twice";
              to = sums[static_cast<std::size_t>(f / 2)][static_cast<std::size_t>(lane)]
                       [static_cast<std::size_t>(i + f % 2 * 2)];
            }
          }
      }
    }
  }
  return output;
}

at::Tensor emulated_gradient(const StemConvolutionShape& s, const StemTiles& tiles,
                             const at::Tensor& images, const at::Tensor& gradient) {
  const ImageGradientWork work = image_gradient_work(s, tiles);
  const auto filters = static_cast<std::int32_t>(work.groups.filters);
  const auto channels = static_cast<std::int32_t>(s.channels);
  const auto tap_groups = static_cast<std::int32_t>(work.tap_groups);
  const std::int32_t shares = kGradientWarps / tap_groups, matrices = filters / 16;
  const auto dy = gradient.accessor<double, 4>();
  std::vector<double> partials(static_cast<std::size_t>(stem_scratch(s)), NAN);
  for (std::int64_t block = 0; block < work.blocks; ++block)
    for (std::int64_t group = 0; group < work.groups.count; ++group)
      for (std::int32_t tap_group = 0; tap_group < tap_groups; ++tap_group) {
        std::vector<LaneSums> sums(static_cast<std::size_t>(matrices * channels));
        for (std::int64_t which = block; which < tiles.count; which += work.blocks) {
          const Place place = place_of(tiles, which);
          const std::vector<Word> tile = tile_at(s, tiles, images, place);
          const auto copied = [&](std::int32_t window, std::int64_t filter) {
            std::int64_t row, column;
            filter += group * filters;
            return in_output(s, tiles, place, window, row, column) && filter < s.filters
                       ? dy[place.image][row][column][filter]
                       : 0.0;
          };
          for (std::int32_t share = 0; share < shares; ++share)
            for (std::int32_t step = share; step < (tiles.windows() + 15) / 16; step += shares)
              for (std::int32_t matrix = 0; matrix < matrices; ++matrix)
                for (std::int32_t channel = 0; channel < channels; ++channel) {
                  Fragments f;
                  for (std::int32_t lane = 0; lane < 32; ++lane) {
                    const auto l = static_cast<std::size_t>(lane);
                    const auto c = static_cast<std::size_t>(channel);
                    // ldmatrix.trans: rows 2 slot and the next, in column lane / 4; which row a
                    // lane points at is that of the lane that points at it.
                    for (std::int32_t r = 0; r < 4; ++r)
                      for (std::int32_t i = 0; i < 2; ++i) {
                        const std::int32_t pointing = r * 8 + lane % 4 * 2 + i;
                        const std::int32_t window = window_of(pointing % 8 + pointing / 16 * 8);
                        const std::int32_t filter = pointing / 8 % 2 * 8;
                        f.a[l][static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] =
                            copied(step * 16 + window, matrix * 16 + filter + lane / 4);
                      }
                    const std::int32_t tap = tap_group * kGroupTaps + lane / 4;
                    for (std::int32_t half = 0; half < 2; ++half)
                      for (std::int32_t i = 0; i < 2; ++i)
                        f.b[l][static_cast<std::size_t>(half)]
                           [static_cast<std::size_t>(i)] = tile[static_cast<std::size_t>(pixel_of(
                            s, tiles, window_of(step * 16 + half * 8 + lane % 4 * 2 + i), tap))][c];
                  }
                  multiply(f, sums[static_cast<std::size_t>(matrix * channels + channel)]);
                }
        }
        for (std::int32_t matrix = 0; matrix < matrices; ++matrix)
          for (std::int32_t channel = 0; channel < channels; ++channel) {
            double* to = partials.data() + block * work.partial +
                         group * (work.partial / work.groups.count) +
                         gradient_index(tap_group, matrices, matrix, channels, channel);
            for (const auto& of_lane : sums[static_cast<std::size_t>(matrix * channels + channel)])
              for (const double number : of_lane) *to++ = number;
          }
      }
  at::Tensor result = at::full({s.filters, image_taps(s), s.channels}, NAN, at::kDouble);
  auto dw = result.accessor<double, 3>();
  for (std::int64_t i = 0; i < work.partial; ++i) {
    double sum = 0;
    for (std::int64_t block = 0; block < work.blocks; ++block)
      sum += partials[static_cast<std::size_t>(block * work.partial + i)];
    const GradientPlace place =
        gradient_place(static_cast<std::int32_t>(i), filters, tap_groups, channels);
    if (place.filter >= s.filters || place.tap >= image_taps(s)) continue;
    EXPECT_TRUE(std::isnan(dw[place.filter][place.tap][place.channel])) << "written twice";
    dw[place.filter][place.tap][place.channel] = sum;
  }
  return result.view({s.filters, s.rows.window, s.columns.window, s.channels});
}

/// On small whole numbers, so that every sum is exact.
TEST(StemConvolutionWork, GivesEachLaneWhatMakesTheConvolution) {
  at::manual_seed(1);
  for (const StemConvolutionShape& s : stem_convolution_shapes(2)) {
    if (!s.channels_last || s.image_type != FloatType::F32 || s.type != FloatType::Bf16) continue;
    const auto tiles = cut_stem_tiles(s);
    ASSERT_TRUE(tiles) << described(s);
    const auto whole_numbers = [](const at::Tensor& like) {
      return at::randint(-4, 5, like.sizes(), at::kFloat);
    };
    ImageTensors tensors = random_tensors(s);
    tensors = {whole_numbers(tensors.images), whole_numbers(tensors.weight),
               whole_numbers(tensors.output_gradient)};
    spoil_unseen(s, tensors.images);
    const ImageResults wanted = by_definition(s, tensors);
    const at::Tensor images = tensors.images.to(at::kDouble);
    ASSERT_TRUE(at::equal(emulated_forward(s, *tiles, images, tensors.weight.to(at::kDouble)),
                          wanted.output))
        << described(s);
    ASSERT_TRUE(
        at::equal(emulated_gradient(s, *tiles, images, tensors.output_gradient.to(at::kDouble)),
                  wanted.weight_gradient))
        << described(s);
  }
}

StemConvolutionShape stem(std::int64_t images, std::int64_t pixels, std::int64_t filters,
                          std::int64_t window, std::int64_t stride) {
  const WindowAxis axis = fitted_windows(pixels, window, stride, window / 2);
  return {.images = images, .channels = 3, .filters = filters, .rows = axis, .columns = axis};
}

TEST(StemConvolutionWork, CutsTheStemsOfKnownNetworksIntoFullTiles) {
  for (const StemConvolutionShape& s : {stem(96, 32, 64, 7, 2), stem(96, 32, 64, 3, 1),
                                        stem(96, 224, 32, 3, 2), stem(96, 224, 64, 7, 2)}) {
    const auto tiles = cut_stem_tiles(s);
    ASSERT_TRUE(tiles) << described(s);
    EXPECT_EQ(tiles->count * kTileWindows, s.images * s.rows.output * s.columns.output)
        << described(s);
    EXPECT_GE(tiles->count, 132) << "one for each multiprocessor of a large chip";
    EXPECT_LE(tiles->seen_rows * tiles->pitch, kTilePixels);
  }
}

TEST(StemConvolutionWork, LeavesFewSumsOfSmallBatches) {
  const StemConvolutionShape one = stem(1, 32, 64, 7, 2), many = stem(1024, 32, 64, 7, 2);
  EXPECT_EQ(image_gradient_work(one, *cut_stem_tiles(one)).blocks, 1);
  EXPECT_EQ(image_gradient_work(many, *cut_stem_tiles(many)).blocks, 264);
  EXPECT_LE(4 * stem_scratch(many), 12 << 20);
}

TEST(StemConvolutionWork, CutsNothingThatATileCannotHold) {
  EXPECT_FALSE(cut_stem_tiles(stem(1, 224, 64, 16, 16))) << "256 taps";
  EXPECT_FALSE(cut_stem_tiles(stem(1, 224, 64, 5, 32))) << "windows far apart";
  EXPECT_FALSE(cut_stem_tiles(stem(1, 32, 60, 3, 1))) << "60 filters";
  StemConvolutionShape wide = stem(1, 32, 64, 3, 1);
  wide.channels = 5;
  EXPECT_FALSE(cut_stem_tiles(wide));
}

}  // namespace
}  // namespace triaccel::kernels
