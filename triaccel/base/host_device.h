#pragma once

/// Marks a function that both the CPU and the CUDA back end call, so that the two cannot drift
/// apart.
#ifdef __CUDACC__
#define TRIACCEL_HOST_DEVICE __host__ __device__
#else
#define TRIACCEL_HOST_DEVICE
#endif

/// Marks a loop of the CPU back end. The build is for any x86-64; the wider vectors of newer chips
/// are chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TRIACCEL_WIDE_VECTORS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIACCEL_WIDE_VECTORS
#endif

typedef struct CUstream_st* cudaStream_t;  // keeps cuda_runtime.h out of C++ callers
