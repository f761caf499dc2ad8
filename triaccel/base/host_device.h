#pragma once

/// Marks a function that both the CPU and the CUDA back end call, so that the two cannot drift
/// apart.
#ifdef __CUDACC__
#define TRIACCEL_HOST_DEVICE __host__ __device__
#else
#define TRIACCEL_HOST_DEVICE
#endif
