#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/formats/bad_data.h"
#include "triaccel/formats/image_set.h"
#include "triaccel/formats/point_cloud.h"

namespace triaccel {

struct DataOptions {
  std::string name = "synthetic";       // or one of data_set_names()
  std::filesystem::path root = {};      // the set's folder or one that holds it; empty: look around
  std::int64_t train_samples = 0;       // use only this many training samples; 0: all
  std::int64_t validation_samples = 0;  // held out of the training set
  std::int64_t image_size = 0;          // resize to this many pixels a side; 0: the set's own
  double rotation = 0;                  // degrees every image is turned by, counter-clockwise
  std::int64_t context_length = 256;    // tokens a sample, for text
  bool channels_last = false;
  BadDataRule bad_data = {};
  std::uint64_t seed = 0;  // which samples are held out; the synthetic set itself
};

/// The images a set is made of, turned where that is asked for; of "synthetic" and of those sets of
/// data_set_names() that hold images.
ImageSplits read_images(const DataOptions& options);

/// The clouds of "modelnet40".
PointSplits read_points(const DataOptions& options);

/// Which training samples are trained on and which are held out, each in file order.
struct SampleSplit {
  std::vector<std::int64_t> training = {};
  std::vector<std::int64_t> validation = {};
};

/// Draws the held-out samples of `all` first, so that `train_samples` does not change which they
/// are.
SampleSplit split_samples(std::int64_t all, const DataOptions& options);

/// What was dropped and why, at most twenty lines of it.
std::vector<std::string> finding_notices(const std::vector<Finding>& findings);

}  // namespace triaccel
