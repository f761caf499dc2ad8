#pragma once

#include <functional>
#include <memory>
#include <span>

#include "triaccel/device/side_stream.h"

namespace triaccel {

/// Device memory that consecutive work on one stream shares, captured or not. Whatever one work
/// item allocates must be freed when the next one begins: captured work writes to the addresses it
/// was captured with, whoever owns them by then.
class WorkPool {
 public:
  /// Of the current device and stream, which must not be the default one.
  WorkPool();
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// What runs concurrently on that side stream belongs to the work, too.
  void share_with(const SideStream& side);

  /// Until the scope ends all allocations on the pool's streams, by any thread, are the pool's.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(WorkPool& pool);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WorkPool& pool_;
  };

  /// Returns the memory to the device and starts over. No captured work may be left.
  void renew();

 private:
  friend class CapturedWork;
  struct Id;
  std::unique_ptr<Id> id_;
};

/// New arguments for a kernel of captured work: numbers of the host that change from one replay to
/// the next. A kernel or copy enqueued between replays instead would idle the device for longer
/// than it runs.
struct KernelArguments {
  const void* kernel = nullptr;   // its function, captured once: a second launch of it would keep
                                  // its arguments; null: nothing changes
  std::span<void* const> values;  // a pointer to each argument, as cudaLaunchKernel takes them
};

/// What a function enqueues on the current stream, kept to be enqueued again at the cost of one
/// launch. Sizes, addresses and numbers of the host are as they were; device memory is read
/// again each time. Random numbers continue from one replay to the next as they would eagerly.
class CapturedWork {
 public:
  /// Calls `work` once to see what it enqueues; nothing of it runs yet. Passes on what it throws.
  CapturedWork(WorkPool& pool, const std::function<void()>& work);
  ~CapturedWork();
  CapturedWork(CapturedWork&&) noexcept;
  CapturedWork& operator=(CapturedWork&&) noexcept;

  /// The arguments stay what they are for later replays.
  void replay(const KernelArguments& arguments = {});

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

/// Whether work on the current stream of this thread can be captured: not on a CPU, not on the
/// default stream.
bool can_capture();

}  // namespace triaccel
