#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "triaccel/device/captured_work.h"
#include "triaccel/device/side_stream.h"
#include "triaccel/ops/loss_data/step_inputs.h"

namespace triaccel {

struct GraphCacheOptions {
  std::size_t capacity = 8;  // captured pieces of work kept; the longest unused goes first
};

/// How much of the work was replayed.
struct GraphCounts {
  std::int64_t replays = 0;
  std::int64_t captures = 0;
  double capture_seconds = 0;  // of those, with the rehearsals before them
};

/// How work gets to the device.
enum class Enqueued {
  Eagerly,    // kernel by kernel, now
  Rehearsed,  // likewise, in the order and memory of the capture to come, but without an effect:
              // libraries set themselves up, which they may not do during a capture
  Captured,   // only recorded: nothing of it happens, so nothing has to be undone when it fails
  CapturedRehearsal,  // likewise, and its replays have no effect: to see how long they take
};

/// Whether what was done so, or replayed, leaves everything as it was.
inline bool has_no_effect(Enqueued enqueued) {
  return enqueued == Enqueued::Rehearsed || enqueued == Enqueued::CapturedRehearsal;
}

/// Whole steps and evaluations, each captured once and replayed from then on. A piece of work is
/// known by its key: everything that shapes it, the batch, the precisions, the data set. All of
/// them share one pool of memory, so they may keep nothing in it from one to the next.
class GraphCache {
 public:
  using Work = std::function<void(Enqueued)>;

  /// On the current device and stream, and on its side streams.
  GraphCache(const GraphCacheOptions& options, const SideStreams& side);

  /// Does `work`: rehearsed and captured when its key is new, replayed from then on. `samples` of
  /// its largest pass: work larger than all before starts with an empty pool, which smaller work
  /// then fits into. When memory runs out, all captured work is dropped and `work` is captured
  /// again; OutOfMemory when that fails too. `arguments`: for each replay, the first included.
  void run(std::uint64_t key, std::int64_t samples, const Work& work,
           const KernelArguments& arguments = {});

  /// Work that is not worth capturing, in the same memory. OutOfMemory as it comes.
  void run_once(const std::function<void()>& work);

  /// How long a replay of `work` takes, which must have no effect. Drops all captured work, too.
  double replay_seconds(const std::function<void()>& work);

  /// Drops all captured work and gives the memory back.
  void clear();

  const GraphCounts& counts() const { return counts_; }

  /// True once each time most of the recent work was not replayed: plans change faster than
  /// capturing them pays.
  bool thrashes();

 private:
  struct Entry {
    std::uint64_t key;
    std::optional<CapturedWork> work;
  };
  using Entries = std::list<Entry>;  // the most recently used first

  void make_room_for(std::int64_t samples);
  void capture(Entry& entry, const Work& work);
  void run_in_pool(const std::function<void()>& work);
  void replay(std::uint64_t key, const Work& work, const KernelArguments& arguments);
  Entry& entry_of(std::uint64_t key);

  GraphCacheOptions options_;
  WorkPool pool_;
  Entries entries_;
  std::unordered_map<std::uint64_t, Entries::iterator> by_key_;
  std::int64_t largest_ = 0;  // samples of the largest work the pool has seen
  bool has_remains_ = false;  // pages of work that was not captured
  GraphCounts counts_;
  GraphCounts judged_;  // by thrashes()
};

/// How the work of a step gets to the device.
class StepExecution {
 public:
  virtual ~StepExecution() = default;

  /// A step that may come again: `key` names everything that shapes it, `samples` are those of its
  /// largest pass, `inputs` what changes from one replay to the next.
  virtual void run(std::uint64_t key, std::int64_t samples, const GraphCache::Work& work,
                   StepInputs& inputs) = 0;

  /// Work that does not come again, kernel by kernel. OutOfMemory as it comes.
  virtual void run_once(const std::function<void()>& work) = 0;

  /// What captured steps read or write is about to move or to change.
  virtual void drop_captured() = 0;

  virtual SideStreams* side_streams() = 0;  // null: everything stays in one stream
  virtual GraphCache* graphs() = 0;         // null: nothing is captured
};

/// With `capture` whole steps are captured once and replayed from then on, else every step is
/// enqueued again.
std::unique_ptr<StepExecution> make_step_execution(bool capture);

}  // namespace triaccel
