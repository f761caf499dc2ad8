#pragma once

namespace triaccel::kernels::cuda {

/// The chip that the code which runs on the current device was made for: 90 for sm_90. The device
/// alone does not tell what its code can do: PTX of an older chip runs on it too. 0: none runs.
int code_target();

/// Code that waits for the kernel before it, and knows clusters.
inline bool code_is_for_sm_90() { return code_target() >= 90; }

}  // namespace triaccel::kernels::cuda
