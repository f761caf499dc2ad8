#include "cli/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace triaccel::cli {
namespace {

volatile std::sig_atomic_t received = 0;
std::timespec received_at = {};

double seconds_since(const std::timespec& before) {
  std::timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec - before.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec - before.tv_nsec);
}

/// A terminal that closes and 'timeout' each send two, to the process and to its group.
extern "C" void on_stop_signal(int signal) {
  constexpr double one_cause = 1;  // seconds
  if (received == 0) {
    clock_gettime(CLOCK_MONOTONIC, &received_at);
    received = signal;
  } else if (seconds_since(received_at) >= one_cause) {
    _exit(128 + signal);
  }
}

}  // namespace

void watch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction inherited = {};
    sigaction(signal, nullptr, &inherited);
    if (inherited.sa_handler == SIG_IGN) continue;  // respect nohup and background jobs
    sigaction(signal, &action, nullptr);
  }
}

int stop_signal() { return received; }

}  // namespace triaccel::cli
