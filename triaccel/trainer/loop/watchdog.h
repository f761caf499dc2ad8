#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace triaccel {

/// Notices when a run has made no progress for too long: a dead device, a stuck file system, a
/// deadlock. What to do about it is the caller's business. Time in which the whole process was
/// stopped (SIGSTOP, a debugger) does not count.
class Watchdog {
 public:
  /// `on_hang(section, seconds)` is called once, from another thread, when no enter() or alive()
  /// came for `timeout_seconds`; 0 watches nothing.
  Watchdog(double timeout_seconds,
           std::function<void(const std::string& section, double seconds)> on_hang);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Says what the run does from now on: "setup", "step", "evaluation", "save".
  void enter(std::string section);
  void alive();

 private:
  void reset();
  void watch();

  const std::chrono::duration<double> timeout_;
  std::function<void(const std::string&, double)> on_hang_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string section_ = "setup";
  std::chrono::steady_clock::time_point last_sign_;
  std::chrono::duration<double> silent_{0};  // since then, without the time stopped
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace triaccel
