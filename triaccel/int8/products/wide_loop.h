#pragma once

/// Marks a function whose loops the compiler vectorises: on x86 it is compiled for AVX2 as well and
/// chosen when the program is loaded. Results are integers, so both give the same bits. Not where
/// vector registers are forbidden, nor under sanitizers, which are not up yet when the choice is
/// made.
#if defined(__x86_64__) && defined(__SSE2__) && defined(__OPTIMIZE__) && defined(__gnu_linux__) && \
    defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TRIACCEL_WIDE_LOOP __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define TRIACCEL_WIDE_LOOP
#endif
