#include "triaccel/trainer/loop/watchdog.h"

#include <algorithm>
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
  reset();
}

void Watchdog::alive() {
  const std::lock_guard lock(mutex_);
  reset();
}

void Watchdog::reset() {
  last_sign_ = Clock::now();
  silent_ = {};
}

void Watchdog::watch() {
  using Seconds = std::chrono::duration<double>;
  const Seconds tick = std::clamp(timeout_ / 8, Seconds(1e-3), Seconds(1));
  std::unique_lock lock(mutex_);
  Clock::time_point last = Clock::now();
  while (!changed_.wait_for(lock, tick, [this] { return stop_; })) {
    const Clock::time_point now = Clock::now();
    // A tick that is much too late: the process was stopped.
    silent_ += std::min<Seconds>(now - std::max(last, last_sign_), 2 * tick);
    last = now;
    if (silent_ < timeout_) continue;
    const std::string section = section_;
    const double silent = silent_.count();
    lock.unlock();  // on_hang may never come back
    on_hang_(section, silent);
    return;
  }
}

}  // namespace triaccel
