#include "triaccel/step/graph_cache.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/device/cuda_memory.h"
#include "triaccel/device/out_of_memory.h"

namespace triaccel {
namespace {

// A capture costs about as much as a few eager steps, of which a replay saves the better part.
constexpr std::int64_t kReplaysToPay = 6;
constexpr std::int64_t kRunsJudged = 200;

class EagerExecution final : public StepExecution {
 public:
  void run(std::uint64_t, std::int64_t, const GraphCache::Work& work, StepInputs&) override {
    work(Enqueued::Eagerly);
  }
  void run_once(const std::function<void()>& work) override { catching_out_of_memory(work); }
  void drop_captured() override {}
  SideStreams* side_streams() override { return nullptr; }
  GraphCache* graphs() override { return nullptr; }
};

class CapturedExecution final : public StepExecution {
 public:
  void run(std::uint64_t key, std::int64_t samples, const GraphCache::Work& work,
           StepInputs& inputs) override {
    graphs_.run(key, samples, work, inputs.replay_arguments());
  }
  void run_once(const std::function<void()>& work) override { graphs_.run_once(work); }
  void drop_captured() override { graphs_.clear(); }
  SideStreams* side_streams() override { return &side_; }
  GraphCache* graphs() override { return &graphs_; }

 private:
  SideStreams side_;
  GraphCache graphs_{GraphCacheOptions{}, side_};
};

}  // namespace

GraphCache::GraphCache(const GraphCacheOptions& options, const SideStreams& side)
    : options_(options) {
  require(options.capacity > 0, "GraphCache", "capacity must be positive");
  pool_.share_with(side.updates);
  pool_.share_with(side.branches);
}

GraphCache::Entry& GraphCache::entry_of(std::uint64_t key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front();
  }
  if (entries_.size() == options_.capacity) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({.key = key, .work = {}});
  by_key_.emplace(key, entries_.begin());
  return entries_.front();
}

void GraphCache::clear() {
  entries_.clear();
  by_key_.clear();
  largest_ = 0;
  has_remains_ = false;
  pool_.renew();
}

void GraphCache::make_room_for(std::int64_t samples) {
  if (samples <= largest_) return;
  if (largest_ > 0) clear();
  largest_ = samples;
}

void GraphCache::capture(Entry& entry, const Work& work) {
  const Stopwatch watch;
  const bool captured_nothing =
      std::ranges::none_of(entries_, [](const Entry& other) { return other.work.has_value(); });
  if (std::exchange(has_remains_, false) && captured_nothing) pool_.renew();
  run_in_pool([&] { work(Enqueued::Rehearsed); });
  entry.work.emplace(catching_out_of_memory(
      [&] { return CapturedWork(pool_, [&] { work(Enqueued::Captured); }); }));
  ++counts_.captures;
  counts_.capture_seconds += watch.seconds();
}

void GraphCache::run(std::uint64_t key, std::int64_t samples, const Work& work,
                     const KernelArguments& arguments) {
  make_room_for(samples);
  try {
    return replay(key, work, arguments);
  } catch (const OutOfMemory&) {
    clear();  // tried again in a pool without gaps
    largest_ = samples;
  }
  try {
    replay(key, work, arguments);
  } catch (const OutOfMemory&) {
    clear();
    throw;
  }
}

void GraphCache::replay(std::uint64_t key, const Work& work, const KernelArguments& arguments) {
  Entry& entry = entry_of(key);
  if (!entry.work) capture(entry, work);
  // The first launch takes memory, too.
  catching_out_of_memory([&] { entry.work->replay(arguments); });
  ++counts_.replays;
}

void GraphCache::run_once(const std::function<void()>& work) {
  has_remains_ = true;
  run_in_pool(work);
}

void GraphCache::run_in_pool(const std::function<void()>& work) {
  const WorkPool::Scope scope(pool_);
  catching_out_of_memory(work);
}

double GraphCache::replay_seconds(const std::function<void()>& work) {
  double seconds = 0;
  try {
    catching_out_of_memory([&] {
      CapturedWork captured(pool_, work);
      captured.replay();  // the first launch sets it up
      synchronize_cuda();
      const Stopwatch watch;
      captured.replay();
      synchronize_cuda();
      seconds = watch.seconds();
    });
  } catch (const OutOfMemory&) {
    clear();
    throw;
  }
  clear();  // a pool whose captured work is gone takes no other
  return seconds;
}

bool GraphCache::thrashes() {
  const std::int64_t replays = counts_.replays - judged_.replays;
  const std::int64_t captures = counts_.captures - judged_.captures;
  if (replays < kRunsJudged) return false;
  judged_ = counts_;
  return replays < kReplaysToPay * captures;
}

std::unique_ptr<StepExecution> make_step_execution(bool capture) {
  if (capture) return std::make_unique<CapturedExecution>();
  return std::make_unique<EagerExecution>();
}

}  // namespace triaccel
