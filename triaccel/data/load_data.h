#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "triaccel/data/data_files.h"
#include "triaccel/data/dataset.h"
#include "triaccel/data/image_data.h"

namespace triaccel {

/// Input and output sizes a model needs for the data.
struct DataShape {
  std::int64_t input_channels = 0;  // 0 for text
  std::int64_t image_size = 0;      // pixels per side of a batch; 0 for points and text
  std::int64_t classes = 0;         // or the size of the vocabulary
};

struct LoadedData {
  std::shared_ptr<Dataset> train = {};
  std::shared_ptr<Dataset> test = {};
  std::vector<std::int64_t> training_ids = {};    // of `train`
  std::vector<std::int64_t> validation_ids = {};  // of `train`, held out
  DataShape shape = {};
  std::vector<std::string> notices = {};  // dropped records, with reasons
  // Of images: how those to be classified later are prepared.
  PixelStatistics statistics = {};
  ImageDataOptions image_options = {};
  std::int64_t stored_height = 0, stored_width = 0;
};

/// Reads a data set, or the user's own files, and copies it to the device, or to host memory if it
/// takes more than options.device_bytes.
LoadedData load_data(const DataOptions& options, c10::Device device);

/// "synthetic" and the sets read from files.
std::vector<std::string> all_data_names();

}  // namespace triaccel
