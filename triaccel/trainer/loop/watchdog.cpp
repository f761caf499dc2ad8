#include "triaccel/trainer/loop/watchdog.h"

#include <utility>

namespace triaccel {

using Clock = std::chrono::steady_clock;

Watchdog::Watchdog(double timeout_seconds, std::function<void(const std::string&, double)> on_hang)
    : timeout_(timeout_seconds), on_hang_(std::move(on_hang)), last_sign_(Clock::now()) {
  if (timeout_seconds > 0 && on_hang_) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::enter(std::string section) {
  const std::lock_guard lock(mutex_);
  section_ = std::move(section);
  last_sign_ = Clock::now();
}

void Watchdog::alive() {
  const std::lock_guard lock(mutex_);
  last_sign_ = Clock::now();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto deadline = last_sign_ + std::chrono::duration_cast<Clock::duration>(timeout_);
    if (Clock::now() >= deadline) {
      const std::string section = section_;
      const double silent = std::chrono::duration<double>(Clock::now() - last_sign_).count();
      lock.unlock();  // on_hang may never come back
      on_hang_(section, silent);
      return;
    }
    changed_.wait_until(lock, deadline);
  }
}

}  // namespace triaccel
