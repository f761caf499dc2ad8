#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "triaccel/formats/bad_data.h"
#include "triaccel/formats/image_set.h"
#include "triaccel/formats/point_cloud.h"

namespace triaccel {

struct DataOptions {
  std::string name = "synthetic";   // or one of data_set_names(), or a path of the user's own data
  std::filesystem::path root = {};  // the folder of the set or its parent; empty: default locations
  std::int64_t train_samples = 0;   // use only this many training samples; 0: all
  std::int64_t validation_samples = 0;  // held out of the training set
  std::int64_t image_size = 0;          // resize to this many pixels per side; 0: original size
  double rotation = 0;                // rotate every image by this many degrees, counter-clockwise
  std::int64_t context_length = 256;  // tokens per sample, for text
  bool channels_last = false;
  BadDataRule bad_data = {};
  std::int64_t device_bytes = kAnyNumber;   // a larger set stays in host memory
  std::int64_t decoded_bytes = kAnyNumber;  // a larger folder of images is decoded while training
  std::uint64_t seed = 0;  // selects held-out samples and generates the synthetic set

  static constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();
};

/// Reads the images of "synthetic", of an image set in data_set_names() or of the user's own files
/// with at most 256 classes, rotated if requested. What there is to say about own data is added to
/// `notices`.
ImageSplits read_images(const DataOptions& options, std::vector<std::string>* notices = nullptr);

/// Reads the point clouds of "modelnet40".
PointSplits read_points(const DataOptions& options);

/// Messages about dropped records, at most twenty lines.
std::vector<std::string> finding_notices(const std::vector<Finding>& findings);

struct SyntheticOptions {
  std::int64_t train_count = 4096;
  std::int64_t test_count = 1024;
  std::int64_t channels = 3;
  std::int64_t size = 32;  // pixels per side
  std::int64_t classes = 10;
  std::uint64_t seed = 0;
};

/// A built-in data set that needs no files: each class is a pattern of a few waves, each image that
/// pattern with random offset, contrast and noise. A small network learns it in an epoch or two;
/// the same seed gives the same bytes everywhere.
ImageSplits synthetic_images(const SyntheticOptions& options);

}  // namespace triaccel
