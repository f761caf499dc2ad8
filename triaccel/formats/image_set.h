#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/formats/bad_data.h"

namespace triaccel {

/// Labelled images of one size, as bytes.
struct ImageSet {
  std::string name = {};
  std::int64_t count = 0, channels = 0, height = 0, width = 0, classes = 0;
  std::vector<std::uint8_t> pixels = {};  // [count][channels][height][width]
  std::vector<std::uint8_t> labels = {};  // [count], each below `classes`
};

struct ImageSplits {
  ImageSet train = {}, test = {};
  std::vector<Finding> findings = {};  // dropped by BadData::Skip or found by BadData::Report
};

/// Rotates every image about its centre, counter-clockwise, with bilinear interpolation and black
/// borders. Fixed-point coordinates (2^-16 pixels) and weights (2^-8) give the same bytes on every
/// machine. Throws UsageError for an angle outside [-360, 360].
void rotate_images(ImageSet& set, double degrees);

}  // namespace triaccel
