#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// What a trained network says of one image.
struct Prediction {
  std::string file = {};
  std::int64_t image = 0;  // its number in the file
  std::int64_t label = 0;
  double probability = 0;
  std::string name = {};  // of the class, where the run's data has names
};

/// Changes the configuration of a run before its network is built, such as its device.
using ConfigChange = std::function<RunConfig(RunConfig)>;

/// Is told what a caller must know of a result, such as that the newest checkpoint is damaged.
using WarningFunction = std::function<void(const std::string&)>;

/// The class that the newest checkpoint of a run gives every image of a file, or of the files of
/// these formats in a folder: PNG and JPEG, also in folders below, which are resized; IDX images
/// (".gz" or not), and safetensors with tensors of type U8 and shape [N, C, H, W], [N, H, W] or
/// [H, W], which have the size and channels of the run's data set. Throws DataError naming the
/// file.
std::vector<Prediction> predict_run(const std::filesystem::path& run,
                                    const std::filesystem::path& images,
                                    const ConfigChange& change = {},
                                    const WarningFunction& warn = {});

}  // namespace triaccel
