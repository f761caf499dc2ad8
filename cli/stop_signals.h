#pragma once

namespace triaccel::cli {

/// SIGINT, SIGTERM and SIGHUP ask the run to finish its step, save and leave; a second signal
/// leaves at once. Checkpoints are all or nothing, so neither does damage.
void watch_stop_signals();

/// The signal that came, or 0.
int stop_signal();

}  // namespace triaccel::cli
