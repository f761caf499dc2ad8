#pragma once

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/checkpoint/checkpoint_store.h"

namespace triaccel {

/// A directory of its own for one test, gone with it.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "triaccel-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::vector<float> random_floats(std::uint64_t seed, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = unit_float(random_words(seed, i).words[0]);
  return values;
}

/// The three files of a checkpoint, about 4 * `floats` bytes, a function of the seed.
inline std::vector<CheckpointFile> sample_files(std::uint64_t seed, std::size_t floats = 1000) {
  return {{.name = "weights.safetensors",
           .tensors = {number_state("fc.weight", random_floats(seed, floats / 2)),
                       number_state("fc.bias", random_floats(seed + 1, 10))}},
          {.name = "optimizer.safetensors",
           .tensors = {number_state("fc.weight.m", random_floats(seed + 2, floats / 2))}},
          {.name = "trainer.safetensors",
           .tensors = {number_state<std::int64_t>("cursor", {static_cast<std::int64_t>(seed), 7}),
                       number_state<std::uint8_t>("rng", {1, 2, 3})}}};
}

/// The seed of the content stands in the config hash, so that a reader can tell what to expect.
inline CheckpointInfo sample_info(std::int64_t step, std::uint64_t seed) {
  return {.step = step, .config_hash = seed, .commit = "0123abcd", .torch_version = "2.11.0"};
}

inline bool holds(const LoadedCheckpoint& loaded, const std::vector<CheckpointFile>& files) {
  std::size_t tensors = 0;
  for (const CheckpointFile& file : files)
    for (const StateView& tensor : file.tensors) {
      const StateView& found = loaded.files.at(file.name).at(tensor.name);
      if (found.type != tensor.type || found.shape != tensor.shape ||
          !std::equal(found.bytes.begin(), found.bytes.end(), tensor.bytes.begin(),
                      tensor.bytes.end()))
        return false;
      ++tensors;
    }
  std::size_t loaded_tensors = 0;
  for (const auto& [name, map] : loaded.files) loaded_tensors += map.size();
  return tensors == loaded_tensors && loaded.files.size() == files.size();
}

}  // namespace triaccel
