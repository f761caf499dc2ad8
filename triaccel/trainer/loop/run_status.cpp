#include "triaccel/trainer/loop/run_status.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <ctime>
#include <future>
#include <memory>
#include <thread>

#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/telemetry/records/run_record.h"
#include "triaccel/telemetry/records/summary.h"

namespace triaccel {
namespace {

constexpr double kSecondsBetweenHeartbeats = 10;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> written = {};
  std::strftime(written.data(), written.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return written.data();
}

}  // namespace

void RunStatus::start(const RunInfo& info) {
  summary_ = {.status = "running",
              .process = ::getpid(),
              .method = info.method,
              .model = info.model,
              .data = info.data,
              .device = info.device,
              .device_type = info.device_type,
              .commit = info.commit,
              .seed = info.seed,
              .accuracy = std::nan(""),
              .loss = std::nan(""),
              .best_accuracy = std::nan(""),
              .score = std::nan(""),
              .steps = info.first_step,
              .budget_bytes = info.budget_bytes};
  summary_.heartbeat = utc_now();
  write();
}

void RunStatus::interval(const StepReport& report, const StepPlan& plan) {
  summary_.steps = report.step;
  summary_.samples = report.samples;
  summary_.epochs = report.epoch;
  summary_.seconds += report.seconds;
  summary_.batch_final = plan.batch_size;
  if (since_written_.seconds() < kSecondsBetweenHeartbeats) return;
  summary_.heartbeat = utc_now();
  write();
  since_written_.restart();
}

void RunStatus::write() const { write_summary(directory_ / kSummaryFile, summary_); }

void RunStatus::failed(const std::string& reason) const noexcept try {
  RunSummary outcome = summary_;
  try {
    outcome = outcome_of(read_run_record(directory_));
  } catch (const std::exception&) {  // then what was last known
  }
  outcome.status = "failed";
  outcome.reason = reason;
  outcome.process = 0;
  outcome.heartbeat.clear();
  write_summary(directory_ / kSummaryFile, outcome);
} catch (...) {
}

void RunStatus::failed_hanging(const std::string& reason) const {
  const auto written = std::make_shared<std::promise<void>>();
  std::thread([this, reason, written] {
    failed(reason);
    written->set_value();
  }).detach();
  written->get_future().wait_for(std::chrono::seconds(2));
}

RunSummary outcome_now(const std::filesystem::path& directory) {
  // Whoever shows the lines says which of them are damaged.
  RunSummary outcome = outcome_of(read_run_record(directory, {.on_damage = [](const auto&) {}}));
  if (outcome.status == "running" && !is_run_locked(directory)) outcome.status = "killed";
  return outcome;
}

}  // namespace triaccel
