#include "apps/int8/worker_pool.h"

#include <csignal>
#include <system_error>

#include "triaccel/base/error.h"

namespace triaccel::int8_program {

WorkerPool::WorkerPool(std::int32_t count) {
  // Signals are for the thread that trains.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (std::int32_t worker = 1; worker < count; ++worker)
      workers_.emplace_back([this, worker] { serve(worker); });
  } catch (const std::system_error&) {
    // Fewer threads give the same results.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkerPool::~WorkerPool() {
  stop_ = true;
  ++turn_;
  turn_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

int8::Threads WorkerPool::threads() {
  return {.count = static_cast<std::int32_t>(workers_.size()) + 1,
          .run = [](void* pool, std::int32_t items, int8::Work work,
                    void* argument) { static_cast<WorkerPool*>(pool)->run(items, work, argument); },
          .context = this};
}

void WorkerPool::run(std::int32_t items, int8::Work work, void* argument) {
  work_ = work;
  argument_ = argument;
  items_ = items;
  next_ = 0;
  busy_ = static_cast<std::int32_t>(workers_.size());
  ++turn_;
  turn_.notify_all();
  take_items(0);
  for (std::int32_t left = busy_; left != 0; left = busy_) busy_.wait(left);
}

void WorkerPool::serve(std::int32_t worker) {
  for (std::uint32_t seen = 0;;) {
    turn_.wait(seen);
    seen = turn_;
    if (stop_) return;
    take_items(worker);
    if (--busy_ == 0) busy_.notify_one();
  }
}

void WorkerPool::take_items(std::int32_t worker) {
  for (std::int32_t item = next_++; item < items_; item = next_++) work_(argument_, item, worker);
}

}  // namespace triaccel::int8_program
