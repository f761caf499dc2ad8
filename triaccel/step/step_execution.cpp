#include "triaccel/step/step_execution.h"

#include "triaccel/device/out_of_memory.h"

namespace triaccel {
namespace {

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

std::unique_ptr<StepExecution> make_step_execution(bool capture) {
  if (capture) return std::make_unique<CapturedExecution>();
  return std::make_unique<EagerExecution>();
}

}  // namespace triaccel
