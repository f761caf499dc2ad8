#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triaccel/data/data_files.h"
#include "triaccel/int8/layers/forward.h"
#include "triaccel/int8/network.h"

namespace triaccel {

/// Labelled samples as mantissas, channel last, all of one exponent: what integer steps read.
struct Int8Samples {
  std::int64_t count = 0;
  std::int64_t inputs = 0;                  // of a sample
  std::int32_t exponent = -7;               // value = mantissa · 2^exponent
  std::vector<std::int8_t> mantissas = {};  // [count][inputs]
  std::vector<std::int32_t> labels = {};    // [count]
  std::int64_t bytes() const { return count * (inputs + 4); }
};

struct Int8Data {
  Int8Samples train = {}, test = {};
  SampleSplit split = {};                 // of `train`
  std::vector<std::string> notices = {};  // records that were dropped, and why
  // What a network must take in and give out.
  std::int64_t channels = 0;
  std::int64_t image_size = 0;  // 0 for points
  std::int64_t points = 0;      // 0 for images
  std::int64_t classes = 0;
};

/// Pixels halved; exponent -7, so that an image lies in [0, 1).
Int8Samples int8_images(const ImageSet& set);

/// Ten-bit coordinates rounded to a grid of 1 / 127 over [-1, 1], exponent -7.
Int8Samples int8_clouds(const PointSet& set);

/// Reads a set of images or point clouds. Throws UsageError for a set that holds neither, and where
/// images would have to be resized.
Int8Data load_int8_data(const DataOptions& options);

/// Samples gathered one after the other.
class Int8Batch {
 public:
  /// `ids` of `samples`; valid until the next call.
  int8::Batch gather(const Int8Samples& samples, std::span<const std::int64_t> ids);
  std::int64_t bytes() const;

 private:
  std::vector<std::int8_t> inputs_;
  std::vector<std::int32_t> labels_;
};

}  // namespace triaccel
