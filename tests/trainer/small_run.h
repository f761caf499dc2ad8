#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "triaccel/base/random.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/telemetry/sink.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/run_directory.h"

namespace triaccel {

/// LeNet-5 on part of the built-in set, in FP32: sixteen steps.
inline RunConfig small_run(const std::string& device = "cpu") {
  RunConfig config;
  config.model.name = "lenet5";
  config.data.train_samples = 512;
  config.train.method = "fp32";
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

/// Writes images of a bright patch, whose place tells the class, on noise: a set that is there in
/// milliseconds and can be learnt.
inline void write_digits(const std::filesystem::path& folder, const std::string& split,
                         std::uint8_t count) {
  constexpr char kSide = 28;
  std::ofstream images(folder / (split + "-images-idx3-ubyte"), std::ios::binary);
  std::ofstream labels(folder / (split + "-labels-idx1-ubyte"), std::ios::binary);
  const char size = static_cast<char>(count);
  images.write("\0\0\x8\x3\0\0\0", 7).put(size);
  images.write("\0\0\0", 3).put(kSide).write("\0\0\0", 3).put(kSide);
  labels.write("\0\0\x8\x1\0\0\0", 7).put(size);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t label = i % 10;
    labels.put(static_cast<char>(label));
    for (std::uint64_t pixel = 0; pixel < kSide * kSide; ++pixel) {
      const std::uint64_t row = pixel / kSide, column = pixel % kSide;
      const bool bright = row / 6 == 1 + label / 4 && column / 6 == label % 4;
      const std::uint32_t noise = random_words(i, pixel, split.size()).words[0] % 64;
      images.put(static_cast<char>(noise + (bright ? 180 : 0)));
    }
  }
}

/// The folder of such a set with 240 samples to train and 40 to test on.
inline const std::filesystem::path& digits_folder() {
  static const ScratchFolder folder;
  static const bool written = [] {
    write_digits(folder.path, "train", 240);
    write_digits(folder.path, "t10k", 40);
    return true;
  }();
  (void)written;
  return folder.path;
}

/// LeNet-5 on some of those digits, under the control loop.
inline RunConfig digits_run() {
  RunConfig config = small_run();
  config.data.name = "mnist";
  config.data.root = digits_folder().string();
  config.data.train_samples = 96;
  config.train.batch = 16;
  config.train.method = "triaccel";
  config.train.control_interval = 2;
  config.control.curvature_every = 4;
  return config;
}

/// The same with every mechanism off and every layer in FP32.
inline RunConfig plain_digits_run() {
  RunConfig config = digits_run();
  config.control.precision = "off";
  config.control.curvature = "off";
  config.control.batch = "off";
  return config;
}

/// Keeps all that a run tells.
struct Recorder : Sink {
  std::vector<StepReport> reports;
  std::vector<StepPlan> ran;  // with each report
  std::vector<StepPlan> plans;
  std::vector<EvaluationReport> evaluations;
  std::vector<std::string> notices;
  void plan(std::int64_t, const StepPlan& plan) override { plans.push_back(plan); }
  void interval(const StepReport& report, const StepPlan& plan) override {
    reports.push_back(report);
    ran.push_back(plan);
  }
  void evaluation(const EvaluationReport& report) override { evaluations.push_back(report); }
  void notice(const std::string& message) override { notices.push_back(message); }

  bool noticed(const std::string& words) const {
    for (const std::string& notice : notices)
      if (notice.find(words) != std::string::npos) return true;
    return false;
  }
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
