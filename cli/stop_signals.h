#pragma once

namespace triaccel::cli {

/// On SIGINT, SIGTERM and SIGHUP the run finishes its step, saves a checkpoint and exits; another
/// signal, a second later, exits at once, which is safe since checkpoints are atomic.
void watch_stop_signals();

/// The signal received, or 0.
int stop_signal();

}  // namespace triaccel::cli
