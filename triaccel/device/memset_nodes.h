#pragma once

typedef struct CUgraph_st* cudaGraph_t;  // keeps cuda_runtime.h out of C++ callers

namespace triaccel {

/// Puts kernels that write the same bytes in place of a graph's memset nodes, which libraries leave
/// in a capture (counters, zeros between strided gradients): the device waits for several
/// microseconds on both sides of a memset and for about one between kernels. Memsets of several
/// rows stay, as do all in graphs that allocate memory: nothing may be removed from those. Before
/// the graph is instantiated, with its device current. In builds with CUDA only.
void replace_memset_nodes(cudaGraph_t graph);

}  // namespace triaccel
