#pragma once

#include <filesystem>
#include <string>

#include "triaccel/base/clock.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// Keeps a run's summary.json true while it trains: "running" with process and heartbeat from the
/// start, then "failed" with the reason. The summary of a run that ends by itself is the caller's.
class RunStatus final : public Sink {
 public:
  explicit RunStatus(std::filesystem::path directory) : directory_(std::move(directory)) {}

  void start(const RunInfo& info) override;
  /// A heartbeat, at most every ten seconds.
  void interval(const StepReport& report, const StepPlan& plan) override;
  /// What cannot be written is left as it was: the run has failed already.
  void failed(const std::string& reason) const noexcept;
  /// The same when the run hangs, perhaps in its file system: gives up after two seconds.
  void failed_hanging(const std::string& reason) const;

 private:
  void write() const;

  std::filesystem::path directory_;
  RunSummary summary_;
  Stopwatch since_written_;
};

/// The outcome of the run in a directory as of now: "killed" where the summary says "running" and
/// no process holds the run. Throws StorageError where its files are damaged.
RunSummary outcome_now(const std::filesystem::path& directory);

}  // namespace triaccel
