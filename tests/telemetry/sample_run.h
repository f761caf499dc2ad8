#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "triaccel/telemetry/sink.h"

namespace triaccel {

inline RunInfo sample_info() {
  return {.run = "demo",
          .method = "amp",
          .model = "resnet18",
          .data = "fashion-mnist",
          .device = "cpu, 2 threads",
          .device_type = "cpu",
          .commit = "abc1234",
          .seed = 18446744073709551615u,
          .epochs = 3,
          .training_samples = 1000,
          .total_samples = 3000,
          .budget_bytes = 300 << 20,
          .layer_names = {"conv1", "fc"}};
}

inline StepReport sample_report(std::int64_t step) {
  return {
      .step = step,
      .samples = step * 10,
      .epoch = static_cast<double>(step) / 100,
      .interval_steps = 10,
      .interval_samples = 100,
      .seconds = 0.1,
      .loss = 2.3 / static_cast<double>(step + 1),
      .accuracy = 0.625,
      .learning_rate = 0.1,
      .gradient_norm = 1.5,
      .loss_scale = 65536,
      .skipped_steps = 1,
      .memory_retries = 2,
      .memory = {.used = 1 << 20,
                 .peak = 212 << 20,
                 .reserved = 220 << 20,
                 .limit = 300 << 20,
                 .peak_by_purpose = {10 << 20, 10 << 20, 20 << 20, 120 << 20, 47 << 20, 5 << 20}},
      .layers = {{.count = 9, .sum = 0.5, .sum_of_squares = 2, .absolute_maximum = 1.25f},
                 {.count = 4, .sum = -1, .sum_of_squares = 3, .absolute_maximum = 2.5f}}};
}

inline StepPlan sample_plan() {
  return {.batch_size = 96,
          .micro_batch_size = 48,
          .layers = {{.compute = Precision::Bf16}, {.compute = Precision::Fp32}}};
}

/// A report and a plan as the control loop leaves them: every field that may differ does.
inline StepReport controlled_report(std::int64_t step) {
  StepReport report = sample_report(step);
  report.consecutive_skips = 1;
  report.skipped_layer = 1;
  report.layers[0].fp16_zeros = 3;
  report.layers[0].fp16_subnormals = 2;
  report.layers[0].fp16_scale = 0.0009765625f;
  report.curvature = CurvatureReport{
      .mode = CurvatureMode::Hessian,
      .step = step - 1,
      .batch = 32,
      .seconds = 0.25,
      .negative = 1,
      .layers = {{.eigenvalues = {12.5, 0.1}, .gradient_noise = 3.5, .gradient_signal = -0.25},
                 {.eigenvalues = {-0.75}}}};
  return report;
}

inline StepPlan controlled_plan() {
  return {.batch_size = 128,
          .micro_batch_size = 64,
          .learning_rate_scale = 1.3333334f,
          .layers = {{.compute = Precision::Fp16, .learning_rate_scale = 0.1f},
                     {.compute = Precision::Bf16, .learning_rate_scale = 0.7f}}};
}

inline EvaluationReport sample_evaluation(std::int64_t step) {
  return {.step = step,
          .epoch = static_cast<double>(step) / 100,
          .samples = 500,
          .loss = 0.4,
          .accuracy = 0.875,
          .seconds = 0.5};
}

inline RunSummary sample_summary(std::int64_t steps) {
  return {.method = "amp",
          .model = "resnet18",
          .stem = "cifar",
          .data = "fashion-mnist",
          .device = "cpu",
          .device_type = "cpu",
          .commit = "abc1234",
          .seed = 7,
          .accuracy = 87.5,
          .loss = 0.4,
          .best_accuracy = 88,
          .epochs = 3,
          .seconds = 64.5,
          .seconds_per_epoch = 21.5,
          .score = 22.43,
          .samples = 3000,
          .steps = steps,
          .peak_bytes = 212 << 20,
          .peak_reserved_bytes = 220 << 20,
          .data_bytes = 47 << 20,
          .budget_bytes = 300 << 20,
          .batch_final = 96,
          .batch_largest = 128,
          .skipped_steps = 1,
          .memory_retries = 2,
          .rollbacks = 3,
          .plan_changes = 4,
          .curvature_probes = 5,
          .graph_replays = 2000,
          .graph_captures = 5,
          .graph_capture_seconds = 0.75,
          .compression_noise = 0.02,
          .compression_noise_by_layer = {0.25, 0.5},
          .control_seconds = 0.6,
          .layers_fp32 = 7,
          .layers_bf16 = 8,
          .layers_fp16 = 9,
          .parameters = 11173962};
}

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A directory of its own, removed with everything in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "telemetry_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace triaccel
