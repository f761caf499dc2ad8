#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "triaccel/formats/image_set.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/network.h"

namespace triaccel {

/// Where integer steps get their samples from: memory or a file.
struct Int8Reader {
  std::int64_t inputs = 0;     // of a sample
  std::int32_t exponent = -7;  // value = mantissa · 2^exponent
  /// Writes the mantissas of sample `id`, channel last, and returns its label.
  std::function<std::int32_t(std::int64_t id, std::int8_t* mantissas)> read = {};
};

/// Labelled samples as mantissas, channel last, all of one exponent, in memory.
struct Int8Samples {
  std::int64_t count = 0;
  std::int64_t inputs = 0;                  // of a sample
  std::int32_t exponent = -7;               // value = mantissa · 2^exponent
  std::vector<std::int8_t> mantissas = {};  // [count][inputs]
  std::vector<std::int32_t> labels = {};    // [count]
  std::int64_t bytes() const { return count * (inputs + 4); }
  Int8Reader reader() const;  // of samples that must outlive it
};

/// Pixels halved; exponent -7, so that an image lies in [0, 1).
Int8Samples int8_images(const ImageSet& set);

/// Ten-bit coordinates rounded to a grid of 1 / 127 over [-1, 1], exponent -7.
Int8Samples int8_clouds(const PointSet& set);

/// One cloud, [3][points], to mantissas, [points][3].
void quantise_cloud(std::span<const std::uint16_t> coordinates, std::int8_t* mantissas);

/// Samples gathered one after the other.
class Int8Batch {
 public:
  /// `ids` of a reader; valid until the next call.
  int8::Batch gather(const Int8Reader& from, std::span<const std::int64_t> ids);
  std::int64_t bytes() const;

 private:
  std::vector<std::int8_t> inputs_;
  std::vector<std::int32_t> labels_;
};

}  // namespace triaccel
