#pragma once

typedef struct CUstream_st* cudaStream_t;  // keeps cuda_runtime.h out of C++ callers
