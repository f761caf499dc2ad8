#include "triaccel/data/data_files.h"

#include <algorithm>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"

namespace triaccel {
namespace {

constexpr std::uint64_t kPatternStream = 1;
constexpr std::uint64_t kImageStream = 2;
constexpr std::uint64_t kNoiseStream = 3;

/// A triangle wave of period 256 with values in [-64, 64]: integer, so equal on every machine.
int triangle(int phase) {
  const int p = phase & 255;
  return (p < 128 ? p : 256 - p) - 64;
}

struct Wave {
  int x, y, phase;  // phase increments per column and row, and phase at the origin, in 1/256 turns
};

constexpr int kOffsets = 5;  // of an image in its pattern, per direction

/// What the images of a class have in common: three waves per channel, `side` pixels a row.
struct Pattern {
  std::int64_t side = 0;
  std::vector<int> values = {};
};

Pattern class_pattern(const SyntheticOptions& options, std::int64_t label) {
  Pattern pattern{.side = options.size + kOffsets - 1};
  for (std::int64_t c = 0; c < options.channels; ++c) {
    std::vector<Wave> waves;
    for (std::int64_t i = 3 * c; i < 3 * c + 3; ++i) {
      const auto number = static_cast<std::uint64_t>(label * 1024 + i);
      const RandomWords random = random_words(options.seed, number, kPatternStream);
      const auto draw = [&](int word, int bound) {
        return static_cast<int>(bounded(random.words[word], static_cast<std::uint32_t>(bound)));
      };
      waves.push_back({draw(0, 61) - 30, draw(1, 61) - 30, draw(2, 256)});
    }
    for (int y = 0; y < pattern.side; ++y)
      for (int x = 0; x < pattern.side; ++x) {
        int value = 0;
        for (const Wave& wave : waves) value += triangle(wave.x * x + wave.y * y + wave.phase);
        pattern.values.push_back(value);
      }
  }
  return pattern;
}

void draw_image(const SyntheticOptions& options, const Pattern& pattern, std::uint64_t number,
                std::uint8_t* pixels) {
  const RandomWords random = random_words(options.seed, number, kImageStream);
  const auto left = static_cast<std::int64_t>(bounded(random.words[0], kOffsets));
  const auto top = static_cast<std::int64_t>(bounded(random.words[1], kOffsets));
  const int contrast = 40 + static_cast<int>(bounded(random.words[2], 60));  // percent
  std::uint64_t index = 0;
  RandomWords noise{};  // of four pixels
  for (std::int64_t c = 0; c < options.channels; ++c)
    for (std::int64_t y = 0; y < options.size; ++y) {
      const int* row = pattern.values.data() + (c * pattern.side + y + top) * pattern.side + left;
      for (std::int64_t x = 0; x < options.size; ++x, ++index) {
        if (index % 4 == 0)
          noise = random_words(options.seed, number * 0x100000 + index / 4, kNoiseStream);
        const int speckle = static_cast<int>(noise.words[index % 4] >> 26) - 32;
        pixels[index] =
            static_cast<std::uint8_t>(std::clamp(128 + row[x] * contrast / 150 + speckle, 0, 255));
      }
    }
}

ImageSet draw_set(const SyntheticOptions& options, std::int64_t count, std::uint64_t first) {
  ImageSet set{.name = "synthetic",
               .count = count,
               .channels = options.channels,
               .height = options.size,
               .width = options.size,
               .classes = options.classes};
  std::vector<Pattern> patterns;
  for (std::int64_t label = 0; label < options.classes; ++label)
    patterns.push_back(class_pattern(options, label));
  const auto image_bytes = static_cast<std::size_t>(set.channels * set.height * set.width);
  set.pixels.resize(static_cast<std::size_t>(count) * image_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>(i % options.classes);
    set.labels.push_back(static_cast<std::uint8_t>(label));
    draw_image(options, patterns[label], first + static_cast<std::uint64_t>(i),
               set.pixels.data() + static_cast<std::size_t>(i) * image_bytes);
  }
  return set;
}

}  // namespace

ImageSplits synthetic_images(const SyntheticOptions& options) {
  require(options.classes > 0 && options.classes <= 256, "synthetic_images",
          "classes must lie in [1, 256], got ", options.classes);
  require(
      options.channels > 0 && options.size > 0 && options.train_count > 0 && options.test_count > 0,
      "synthetic_images", "every count and size must be positive");
  return {.train = draw_set(options, options.train_count, 0),
          .test = draw_set(options, options.test_count, std::uint64_t{1} << 40)};
}

}  // namespace triaccel
