#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "triaccel/int8/threads.h"

namespace triaccel::int8_program {

/// Threads that run the items of int8::Threads; the calling thread is one of them.
class WorkerPool {
 public:
  explicit WorkerPool(std::int32_t count);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int8::Threads threads();

 private:
  void run(std::int32_t items, int8::Work work, void* argument);
  void serve(std::int32_t worker);
  void take_items(std::int32_t worker);

  // Of the items under way.
  int8::Work work_ = nullptr;
  void* argument_ = nullptr;
  std::int32_t items_ = 0;
  std::atomic<std::int32_t> next_ = 0;
  std::atomic<std::int32_t> busy_ = 0;  // threads that may still take one

  std::atomic<std::uint32_t> turn_ = 0;  // changes with new items
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace triaccel::int8_program
