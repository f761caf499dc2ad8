#pragma once

#include <cstdint>

/// Marks a function with vectorizable loops: on x86 it is also compiled for AVX2 and selected at
/// load time. Integer results are identical in both. Disabled without vector registers and under
/// sanitizers, which are not initialized yet at load time.
#if defined(__x86_64__) && defined(__SSE2__) && defined(__OPTIMIZE__) && defined(__gnu_linux__) && \
    defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TRIACCEL_WIDE_LOOP __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define TRIACCEL_WIDE_LOOP
#endif

namespace triaccel::int8 {

/// One item of parallel work; each `worker` < Threads::count has its own scratch memory.
using Work = void (*)(void* argument, std::int32_t item, std::int32_t worker);

inline constexpr std::int32_t kMostWorkers = 64;

/// Parallel executor provided by the caller: `run` calls work(argument, item, worker) once for
/// every item below `items` and returns when all are done. Concurrent items must have different
/// workers. Results do not depend on the count.
struct Threads {
  std::int32_t count = 1;  // at most kMostWorkers
  void (*run)(void* context, std::int32_t items, Work work, void* argument) = nullptr;
  void* context = nullptr;
};

/// Calls body(item, worker) for every item; in order on this thread if there is only one.
template <typename Body>
void for_each_item(const Threads& threads, std::int32_t items, Body body) {
  if (threads.run == nullptr || threads.count <= 1 || items <= 1) {
    for (std::int32_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
  threads.run(
      threads.context, items,
      [](void* argument, std::int32_t item, std::int32_t worker) {
        (*static_cast<Body*>(argument))(item, worker);
      },
      &body);
}

}  // namespace triaccel::int8
