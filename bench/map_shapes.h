#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <string>

#include "triaccel/base/error.h"

namespace triaccel::bench {

/// A map [samples, channels, pixels, pixels] of BF16, channels innermost.
struct MapShape {
  std::int64_t samples = 0, channels = 0, pixels = 0;

  std::int64_t bytes() const { return 2 * samples * channels * pixels * pixels; }
  std::string text() const {
    return triaccel::text(samples, " x ", channels, " x ", pixels, " x ", pixels);
  }
  at::Tensor random(c10::Device device) const {
    return at::randn({samples, channels, pixels, pixels},
                     at::TensorOptions(at::kBFloat16).device(device))
        .contiguous(at::MemoryFormat::ChannelsLast);
  }
};

/// Batch norm with ReLU: ResNet-18 of 32 px, ImageNet stem at batch 96, CIFAR stem at batch 1024.
inline constexpr std::array kResidualMaps = {
    MapShape{96, 64, 16},    MapShape{96, 64, 8},    MapShape{96, 128, 4},
    MapShape{96, 256, 2},    MapShape{96, 512, 1},   MapShape{1024, 64, 32},
    MapShape{1024, 128, 16}, MapShape{1024, 256, 8}, MapShape{1024, 512, 4}};

/// Where EfficientNet-B0 is wide, at batch 96, of 32 px and of 224 px: batch norm with SiLU,
/// squeeze-excitation.
inline constexpr std::array kWideMaps = {
    MapShape{96, 32, 16},  MapShape{96, 96, 8},   MapShape{96, 240, 4},  MapShape{96, 672, 2},
    MapShape{96, 1152, 1}, MapShape{96, 32, 112}, MapShape{96, 96, 56},  MapShape{96, 144, 56},
    MapShape{96, 240, 28}, MapShape{96, 480, 14}, MapShape{96, 672, 14}, MapShape{96, 1152, 7}};

}  // namespace triaccel::bench
