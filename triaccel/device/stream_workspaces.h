#pragma once

#include "triaccel/device/current_stream.h"

namespace triaccel {

/// Gives back the workspaces that libtorch keeps for cuBLAS and cuBLASLt on `stream`, 1 MiB each: a
/// run has streams of its own, and what it leaves would count against the budget of the next. Not
/// before what was captured with them is gone. In builds with CUDA only.
void drop_workspaces(cudaStream_t stream);

}  // namespace triaccel
