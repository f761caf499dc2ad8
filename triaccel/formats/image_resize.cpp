#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/formats/image_file.h"

namespace triaccel {
namespace {

constexpr int kWeightBits = 16;

/// The input pixels of one output pixel and their weights, which sum to 2^16.
struct Taps {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights = {};
};

/// Taps of the outputs [begin, begin + count) when `from` pixels become `to`. In units of 1 / (2
/// to) of an input pixel, centres and support are whole numbers.
std::vector<Taps> taps_of(std::int64_t from, std::int64_t to, std::int64_t begin,
                          std::int64_t count) {
  const std::int64_t support = 2 * std::max(from, to);
  std::vector<Taps> all;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const std::int64_t centre = (2 * i + 1) * from;
    const std::int64_t low = std::max<std::int64_t>(0, (centre - support) / (2 * to) - 1);
    Taps taps;
    std::vector<std::int64_t> heights;
    std::int64_t sum = 0;
    for (std::int64_t j = low; j < from && (2 * j + 1) * to < centre + support; ++j) {
      const std::int64_t distance = std::abs((2 * j + 1) * to - centre);
      if (distance >= support) continue;
      if (heights.empty()) taps.first = j;
      heights.push_back(support - distance);
      sum += heights.back();
    }
    std::int32_t rest = 1 << kWeightBits;
    for (const std::int64_t height : heights) {
      taps.weights.push_back(static_cast<std::int32_t>((height << kWeightBits) / sum));
      rest -= taps.weights.back();
    }
    *std::ranges::max_element(taps.weights) += rest;  // what rounding has lost
    all.push_back(std::move(taps));
  }
  return all;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>((sum + (1 << (kWeightBits - 1))) >> kWeightBits);
}

}  // namespace

void resize_and_crop(const RgbImage& image, std::int64_t size, std::span<std::uint8_t> planes) {
  require(size > 0 && image.width > 0 && image.height > 0 &&
              static_cast<std::int64_t>(planes.size()) == 3 * size * size,
          "resize_and_crop", "an image of ", image.width, "x", image.height, " to ", size);
  const std::int64_t shorter = std::min(image.width, image.height);
  const std::int64_t width = image.width * size / shorter, height = image.height * size / shorter;
  const std::vector<Taps> columns = taps_of(image.width, width, (width - size) / 2, size);
  const std::vector<Taps> rows = taps_of(image.height, height, (height - size) / 2, size);
  const std::int64_t top = rows.front().first;
  const std::int64_t bottom = rows.back().first + std::ssize(rows.back().weights);
  // Rows first become `size` wide: [bottom - top][size][3].
  std::vector<std::uint8_t> narrow(static_cast<std::size_t>((bottom - top) * size * 3));
  auto out = narrow.begin();
  for (std::int64_t y = top; y < bottom; ++y) {
    const std::uint8_t* const line = image.pixels.data() + y * image.width * 3;
    for (const Taps& taps : columns) {
      std::int32_t red = 0, green = 0, blue = 0;
      const std::uint8_t* pixel = line + taps.first * 3;
      for (const std::int32_t weight : taps.weights) {
        red += weight * pixel[0];
        green += weight * pixel[1];
        blue += weight * pixel[2];
        pixel += 3;
      }
      *out++ = rounded(red);
      *out++ = rounded(green);
      *out++ = rounded(blue);
    }
  }
  std::vector<std::int32_t> sums(static_cast<std::size_t>(size * 3));
  for (std::int64_t y = 0; y < size; ++y) {
    const Taps& taps = rows[static_cast<std::size_t>(y)];
    std::ranges::fill(sums, 0);
    const std::uint8_t* line = narrow.data() + (taps.first - top) * size * 3;
    for (const std::int32_t weight : taps.weights)
      for (std::int32_t& sum : sums) sum += weight * *line++;
    for (std::int64_t x = 0; x < size; ++x)
      for (std::int64_t c = 0; c < 3; ++c)
        planes[static_cast<std::size_t>((c * size + y) * size + x)] =
            rounded(sums[static_cast<std::size_t>(x * 3 + c)]);
  }
}

}  // namespace triaccel
