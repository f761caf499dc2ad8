#include "triaccel/formats/image_set.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

/// Source of a pixel of the rotated image: the upper left of four neighbours and the offset from
/// it, in 2^-8 pixels.
struct Source {
  std::int64_t row = 0, column = 0;
  std::uint32_t down = 0, right = 0;
};

constexpr std::int64_t kOne = std::int64_t{1} << 16;  // a pixel

std::vector<Source> sources_of(std::int64_t height, std::int64_t width, double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const std::int64_t cosine = std::llround(std::cos(angle) * static_cast<double>(kOne));
  const std::int64_t sine = std::llround(std::sin(angle) * static_cast<double>(kOne));
  std::vector<Source> sources;
  for (std::int64_t row = 0; row < height; ++row)
    for (std::int64_t column = 0; column < width; ++column) {
      // Twice the distance from the centre is an integer for even and odd sizes.
      const std::int64_t down = 2 * row - (height - 1);
      const std::int64_t right = 2 * column - (width - 1);
      const std::int64_t from_row = (cosine * down + sine * right + kOne * (height - 1)) >> 1;
      const std::int64_t from_column = (cosine * right - sine * down + kOne * (width - 1)) >> 1;
      sources.push_back({from_row >> 16, from_column >> 16,
                         static_cast<std::uint32_t>((from_row & (kOne - 1)) >> 8),
                         static_cast<std::uint32_t>((from_column & (kOne - 1)) >> 8)});
    }
  return sources;
}

}  // namespace

void rotate_images(ImageSet& set, double degrees) {
  require(degrees >= -360 && degrees <= 360, "--rotate", "must lie in [-360, 360] degrees, got ",
          degrees);
  if (degrees == 0) return;
  const std::vector<Source> sources = sources_of(set.height, set.width, degrees);
  const std::size_t plane = sources.size();
  std::vector<std::uint8_t> turned(plane);
  for (std::size_t begin = 0; begin + plane <= set.pixels.size(); begin += plane) {
    const std::uint8_t* image = set.pixels.data() + begin;
    const auto pixel = [&](std::int64_t row, std::int64_t column) -> std::uint32_t {
      if (row < 0 || row >= set.height || column < 0 || column >= set.width) return 0;
      return image[row * set.width + column];
    };
    for (std::size_t i = 0; i < plane; ++i) {
      const auto [row, column, down, right] = sources[i];
      const std::uint32_t upper =
          pixel(row, column) * (256 - right) + pixel(row, column + 1) * right;
      const std::uint32_t lower =
          pixel(row + 1, column) * (256 - right) + pixel(row + 1, column + 1) * right;
      turned[i] = static_cast<std::uint8_t>((upper * (256 - down) + lower * down + 32768) >> 16);
    }
    std::copy(turned.begin(), turned.end(),
              set.pixels.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

}  // namespace triaccel
