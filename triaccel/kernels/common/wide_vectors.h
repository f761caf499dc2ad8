#pragma once

// The build is for any x86-64; the wider vectors of newer chips are chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TRIACCEL_WIDE_VECTORS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIACCEL_WIDE_VECTORS
#endif
