#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "triaccel/ops/conv/max_pool.h"
#include "triaccel/ops/conv/stem_convolution.h"
#include "triaccel/ops/norm/batch_norm.h"
#include "triaccel/ops/tensors/bias.h"
#include "triaccel/ops/tensors/even_pixels.h"

namespace triaccel {
namespace {

using Sizes = std::vector<std::int64_t>;

class MapOpsOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(1);
  }
  const at::Device device_ = at::Device(at::kCUDA, 0);
};

TEST_F(MapOpsOnCuda, PoolAsOnTheCpu) {
  const PoolGeometry geometry = {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  const at::Tensor map =
      at::randn({4, 16, 9, 9}).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const Maxima wanted = max_pool(map, geometry), found = max_pool(map.to(device_), geometry);
  EXPECT_TRUE(at::equal(found.values.cpu(), wanted.values));
  EXPECT_TRUE(at::equal(found.taps.cpu(), wanted.taps));
  EXPECT_TRUE(at::equal(max_pool_gradient(found.values, found.taps, map.sizes(), geometry).cpu(),
                        max_pool_gradient(wanted.values, wanted.taps, map.sizes(), geometry)));
}

/// Maps that stay in registers and larger ones, whose output another kernel wrote.
TEST_F(MapOpsOnCuda, NormaliseAgainToTheLastBit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const Activation activation : {Activation::None, Activation::Relu, Activation::Silu})
      for (const Sizes& sizes : std::vector<Sizes>{Sizes{4, 24, 3, 5}, Sizes{96, 64, 8, 8},
                                                   Sizes{7, 13, 31, 9}, Sizes{64, 64, 64, 64}}) {
        const at::Tensor map = (at::randn(sizes, at::TensorOptions(device_)) * 2 + 1)
                                   .to(type)
                                   .contiguous(at::MemoryFormat::ChannelsLast);
        const auto row = [&] { return at::rand({sizes[1]}, at::TensorOptions(device_)); };
        const NormStatistics saved{row(), row()};
        const NormParameters how{.weight = row(), .bias = row()};
        const at::Tensor output = at::empty_like(map), again = at::empty_like(map);
        batch_norm_train(output, saved, map, how, {{}, activation});
        batch_norm_again(again, saved, map, how, activation);
        EXPECT_TRUE(at::equal(output, again))
            << at::IntArrayRef(sizes) << " " << type << " " << static_cast<int>(activation);
      }
}

TEST_F(MapOpsOnCuda, ConvolveImagesAsOnTheCpu) {
  const WindowPlacement geometry = {.padding = {1, 1}};
  const at::Tensor images = at::randn({4, 3, 9, 9});
  const at::Tensor weight = at::randn({16, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor wanted = stem_convolution(images, weight, geometry, at::kHalf);
  const at::Tensor found =
      stem_convolution(images.to(device_), weight.to(device_), geometry, at::kHalf);
  EXPECT_TRUE(at::allclose(found.cpu(), wanted, 0x1p-10, 1e-4));
  EXPECT_TRUE(at::allclose(
      stem_weight_gradient(found, images.to(device_), weight.to(device_), geometry).cpu(),
      stem_weight_gradient(found.cpu(), images, weight, geometry), 1e-4, 1e-3));
}

TEST_F(MapOpsOnCuda, TakeAndSpreadEvenPixelsAsOnTheCpu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const Sizes& sizes :
         std::vector<Sizes>{Sizes{3, 16, 5, 7}, Sizes{1, 8, 1, 1}, Sizes{0, 8, 4, 4},
                            Sizes{37, 64, 33, 32}, Sizes{17, 24, 2, 31}}) {
      const at::Tensor map = at::randn(sizes).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor even = even_pixels(map.to(device_));
      EXPECT_TRUE(at::equal(even.cpu(), even_pixels(map))) << at::IntArrayRef(sizes);
      EXPECT_TRUE(
          at::equal(scatter_even_pixels(even, sizes).cpu(), scatter_even_pixels(even.cpu(), sizes)))
          << at::IntArrayRef(sizes);
    }
}

/// Small maps and large ones, as if zeros lay between the pixels.
TEST_F(MapOpsOnCuda, AddAGradientOfEvenPixelsToANorms) {
  for (const Sizes& sizes :
       std::vector<Sizes>{Sizes{3, 16, 5, 7}, Sizes{256, 64, 32, 31}, Sizes{128, 200, 9, 16}})
    for (const bool has_residual : {false, true}) {
      const auto map = [&] {
        return at::randn(sizes, at::TensorOptions(device_).dtype(at::kBFloat16))
            .contiguous(at::MemoryFormat::ChannelsLast);
      };
      const at::Tensor input = map(), gradient = map(), even = even_pixels(map());
      const at::Tensor output = at::empty_like(input), gates = empty_relu_mask(input);
      const auto floats = at::TensorOptions(device_).dtype(at::kFloat);
      const NormStatistics saved = {at::empty({sizes[1]}, floats), at::empty({sizes[1]}, floats)};
      batch_norm_train(output, saved, input, {},
                       {has_residual ? map() : at::Tensor(), Activation::Relu, gates});
      const auto backward = [&](const at::Tensor& added) {
        return batch_norm_backward({gradient,
                                    added,
                                    input,
                                    gates,
                                    saved,
                                    {},
                                    Activation::Relu,
                                    has_residual,
                                    /*want_input=*/true});
      };
      const NormGradients sparse = backward(even), again = backward(even),
                          dense = backward(scatter_even_pixels(even, sizes));
      EXPECT_TRUE(at::equal(sparse.input, again.input)) << at::IntArrayRef(sizes);
      // A small map is summed in another order when it is added to pixel by pixel.
      EXPECT_TRUE(at::allclose(sparse.input, dense.input, 0x1p-7, 1e-5)) << at::IntArrayRef(sizes);
      if (has_residual) {
        EXPECT_TRUE(at::equal(sparse.residual, dense.residual)) << at::IntArrayRef(sizes);
      }
    }
}

/// Small maps and large ones, and rows that allow no wide reads.
TEST_F(MapOpsOnCuda, AddAnotherNormWithoutItsOutput) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const Sizes& sizes : std::vector<Sizes>{Sizes{3, 16, 5, 7}, Sizes{96, 128, 8, 8},
                                                 Sizes{64, 64, 32, 31}, Sizes{64, 13, 9, 16}}) {
      const auto map = [&] {
        return at::randn(sizes).to(type).contiguous(at::MemoryFormat::ChannelsLast);
      };
      const at::Tensor input = map(), other = map();
      const at::Tensor weight = at::rand({sizes[1]}) + 0.5, bias = at::randn({sizes[1]});
      const auto joined = [&](at::Device device) {
        const auto row = [&] {
          return at::empty({sizes[1]}, at::TensorOptions(device).dtype(at::kFloat));
        };
        const at::Tensor x = input.to(device), r = other.to(device), output = at::empty_like(x);
        const NormParameters how = {.weight = weight.to(device), .bias = bias.to(device)};
        const NormStatistics saved = {row(), row()}, of_other = {row(), row()};
        const at::Tensor gates = empty_relu_mask(x);
        batch_norm_statistics(of_other, r, how);
        batch_norm_train(output, saved, x, how,
                         {r, Activation::Relu, gates, {of_other, how.weight, how.bias}});
        return std::vector<at::Tensor>{output, of_other.mean, of_other.inverse_deviation, gates};
      };
      const auto host = joined(at::kCPU), found = joined(device_), again = joined(device_);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(at::allclose(found[i].cpu().to(at::kFloat), host[i].to(at::kFloat),
                                 type == at::kFloat || i > 0 ? 1e-5 : 0x1p-7, 2e-5))
            << at::IntArrayRef(sizes) << " " << i;
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_TRUE(at::equal(found[i], again[i])) << at::IntArrayRef(sizes);
    }
}

TEST_F(MapOpsOnCuda, AddAndSumBiasesAsOnTheCpu) {
  for (const std::int64_t rows : {96, 5000}) {
    const at::Tensor matrix = at::randn({rows, 24}).to(at::kBFloat16), bias = at::randn({24});
    const at::Tensor on_device = matrix.to(device_);
    EXPECT_TRUE(at::allclose(bias_gradient(on_device).cpu(), bias_gradient(matrix), 1e-5, 1e-3));
    add_bias(on_device, bias.to(device_));
    add_bias(matrix, bias);
    EXPECT_TRUE(at::equal(on_device.cpu(), matrix));
  }
}

}  // namespace
}  // namespace triaccel
