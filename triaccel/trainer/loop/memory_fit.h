#pragma once

#include <string>

#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// Makes the runner of a run with a budget. Where not even the smallest passes of its configuration
/// fit, it takes means to need less memory, one after the other, those that change no gradient
/// first; lossy ones only where the configuration allows them. What it took is in parts.config and
/// in the sentence that it returns, "" for nothing. Where all of them do not help, the runner is
/// the one that was asked for. OutOfMemory where that does not fit either.
std::string fit_memory(RunParts& parts);

}  // namespace triaccel
