#include "cli/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace triaccel::cli {
namespace {

volatile std::sig_atomic_t received = 0;

extern "C" void on_stop_signal(int signal) {
  if (received != 0) _exit(128 + signal);
  received = signal;
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
