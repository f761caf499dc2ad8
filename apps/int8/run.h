#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/int8/memory_need.h"
#include "apps/int8/options.h"
#include "apps/int8/worker_pool.h"
#include "triaccel/checkpoint/checkpoint_store.h"
#include "triaccel/core/sampler.h"
#include "triaccel/int8_run/sample_files.h"
#include "triaccel/int8_run/steps.h"
#include "triaccel/int8_run/weights_file.h"

namespace triaccel::int8_program {

// Names inside the folder of a run.
inline constexpr const char* kOptionsFile = "run.json";
inline constexpr const char* kCheckpointFolder = "checkpoints";
inline constexpr const char* kSummaryFile = "summary.json";

/// Loss and accuracy on a set.
struct Score {
  std::int64_t samples = 0;
  double accuracy = 0;  // per cent
  double loss = 0;      // nats
  double seconds = 0;
};

/// What happens outside of a run while it trains.
struct RunHooks {
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string& line)> show = [](const std::string&) {};
  std::function<void(const std::string& message)> warn = [](const std::string&) {};
};

/// A network in training or evaluation, with everything it needs.
class Run {
 public:
  /// Opens the data, makes the network and fits it into the budget. Creates nothing on the disk.
  /// `goes_on`: restore() is called next, so that initial weights are not needed.
  Run(const RunOptions& options, bool training, RunHooks hooks, bool goes_on = false);

  const MemoryNeed& need() const { return need_; }
  const int8::State& state() const { return state_; }
  std::int64_t total_steps() const { return options_.total_steps; }
  bool finished() const;

  /// Takes the weights of a checkpoint, and for training everything else in it.
  void restore(const LoadedCheckpoint& checkpoint);

  /// Trains to the end, or until a stop is requested, in a folder whose lock is held; saves either
  /// way. Returns whether it came to the end.
  bool train(const std::filesystem::path& directory);

  /// On the test set, or on the samples held out of training.
  Score evaluate(bool validation);

 private:
  struct Interval {
    std::int64_t samples = 0, correct = 0, loss = 0;
  };
  struct StopRequested {};

  void one_step();
  void show_interval(double seconds);
  void end_epoch();
  void save(CheckpointStore& store);
  double epoch() const;
  std::int64_t samples() const;

  RunOptions run_;
  RunHooks hooks_;
  bool training_;
  SampleFiles data_;
  MemoryNeed need_;
  int8::State state_;
  WorkerPool pool_;
  std::vector<std::int64_t> validation_;
  Sampler sampler_;
  Int8Options options_;
  Int8CpuSteps steps_;
  std::vector<std::int8_t> slopes_;
  Interval interval_;
};

/// A number with so many decimals.
std::string fixed(double value, int digits);

/// Throws UsageError where a new run in this folder would write over something.
void require_free_folder(const std::filesystem::path& directory);

/// The options of a run. Throws UsageError where the folder holds none.
RunOptions read_options(const std::filesystem::path& directory);

/// The network in a checkpoint of a run with these options; needs no data.
int8::State state_of(const LoadedCheckpoint& checkpoint, const RunOptions& run);

/// The newest valid checkpoint; warns of damaged newer ones.
std::optional<LoadedCheckpoint> newest_checkpoint(const std::filesystem::path& directory,
                                                  const RunHooks& hooks);

}  // namespace triaccel::int8_program
