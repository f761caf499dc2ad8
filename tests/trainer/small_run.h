#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/trainer/run_config.h"
#include "triaccel/trainer/run_directory.h"

namespace triaccel {

/// LeNet-5 on part of the built-in set: sixteen steps.
inline RunConfig small_run(const std::string& device = "cpu") {
  RunConfig config;
  config.model.name = "lenet5";
  config.data.train_samples = 512;
  config.train.batch = 64;
  config.train.epochs = 2;
  config.train.control_interval = 4;
  config.device.device = device;
  return config;
}

/// A folder that is gone when the test is.
struct ScratchFolder {
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "triaccel_test_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path path;
};

/// The weights a run ended with, as bytes.
inline std::vector<std::byte> final_weights(const std::filesystem::path& run) {
  const auto loaded = CheckpointStore(run / kCheckpointFolder).load_latest();
  std::vector<std::byte> bytes;
  for (const auto& [name, view] : loaded->files.at("weights.safetensors"))
    bytes.insert(bytes.end(), view.bytes.begin(), view.bytes.end());
  return bytes;
}

}  // namespace triaccel
