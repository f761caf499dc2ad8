#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "triaccel/data/dataset.h"
#include "triaccel/formats/bad_data.h"

namespace triaccel {

struct DataOptions {
  std::string name = "synthetic";       // or one of data_set_names()
  std::filesystem::path root = {};      // the set's folder or one that holds it; empty: look around
  std::int64_t train_samples = 0;       // use only this many training samples; 0: all
  std::int64_t validation_samples = 0;  // held out of the training set
  std::int64_t image_size = 0;          // resize to this many pixels a side; 0: the set's own
  std::int64_t context_length = 256;    // tokens a sample, for text
  bool channels_last = false;
  BadDataRule bad_data = {};
  std::uint64_t seed = 0;  // which samples are held out; the synthetic set itself
};

/// What a network must take in and give out.
struct DataShape {
  std::int64_t input_channels = 0;  // 0 for text
  std::int64_t image_size = 0;      // pixels a side of a batch; 0 for points and text
  std::int64_t classes = 0;         // or the size of the vocabulary
};

struct LoadedData {
  std::shared_ptr<Dataset> train = {};
  std::shared_ptr<Dataset> test = {};
  std::vector<std::int64_t> training_ids = {};    // of `train`
  std::vector<std::int64_t> validation_ids = {};  // of `train`, held out
  DataShape shape = {};
  std::vector<std::string> notices = {};  // records that were dropped, and why
};

/// Reads a data set and puts it on the device.
LoadedData load_data(const DataOptions& options, c10::Device device);

/// "synthetic" and the sets read from files.
std::vector<std::string> all_data_names();

}  // namespace triaccel
