#pragma once

/// Marks a function with vectorizable loops: on x86 it is also compiled for AVX2 and selected at
/// load time. Integer results are identical in both. Disabled without vector registers and under
/// sanitizers, which are not initialized yet at load time.
#if defined(__x86_64__) && defined(__SSE2__) && defined(__OPTIMIZE__) && defined(__gnu_linux__) && \
    defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TRIACCEL_WIDE_LOOP __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define TRIACCEL_WIDE_LOOP
#endif
