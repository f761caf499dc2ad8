#pragma once

#include <cstdint>

#include "triaccel/formats/image_set.h"

namespace triaccel {

struct SyntheticOptions {
  std::int64_t train_count = 4096;
  std::int64_t test_count = 1024;
  std::int64_t channels = 3;
  std::int64_t size = 32;  // pixels a side
  std::int64_t classes = 10;
  std::uint64_t seed = 0;
};

/// A built-in set that needs no file: each class is a pattern of a few waves, each image that
/// pattern at a random place and contrast under noise. A small network learns it in an epoch or
/// two; the same seed gives the same bytes everywhere.
ImageSplits synthetic_images(const SyntheticOptions& options);

}  // namespace triaccel
