#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/trainer/small_run.h"
#include "triaccel/data/dataset.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/loop/torch_engine.h"
#include "triaccel/trainer/loop/training_loop.h"

namespace triaccel {

/// Passes a data set on, may spoil a sample, and keeps the numbers of those asked for with
/// augmentation, as only training steps ask.
class WatchedData final : public Dataset {
 public:
  explicit WatchedData(std::shared_ptr<Dataset> data) : data_(std::move(data)) {}

  std::int64_t size() const override { return std::min(most, data_->size()); }
  std::int64_t bytes() const override { return data_->bytes(); }
  Batch gather(const at::Tensor& ids, const GatherOptions& options) const override {
    if (options.augment) {
      epoch = options.epoch;
      const auto* first = ids.const_data_ptr<std::int64_t>();
      asked_for.insert(asked_for.end(), first, first + ids.numel());
    }
    Batch batch = data_->gather(ids, options);
    if (spoilt >= 0) batch.inputs.masked_fill_(ids.eq(spoilt).view({-1, 1, 1, 1}), std::nan(""));
    return batch;
  }

  std::int64_t most = 1 << 30;
  std::int64_t spoilt = -1;
  mutable std::int64_t epoch = 0;
  mutable std::vector<std::int64_t> asked_for;  // in the step under way, all its tries

 private:
  std::shared_ptr<Dataset> data_;
};

/// A slim LeNet-5 for the small digits: a CPU may compute FP16 a hundred times slower than FP32.
/// The same weights each time, whatever ran before.
inline Network digits_lenet() {
  torch::manual_seed(5);
  return make_model({.name = "lenet5", .width = 2, .input_channels = 1, .image_size = 28});
}

/// The parts of a run, for any number of runs from the same first weights, with a record of which
/// samples their successful steps saw.
struct WatchedRun : Recorder {
  explicit WatchedRun(const RunConfig& wanted, std::optional<Network> own = {})
      : config(resolved(wanted)), parts(config, std::move(own)) {
    data = std::make_shared<WatchedData>(parts.data.train);
    parts.data.train = data;
    const auto few = std::make_shared<WatchedData>(parts.data.test);
    few->most = 4;  // how well it learns is not the question
    parts.data.test = few;
    const BudgetLifted unlimited(parts.on);
    for (StateView& view : state()) {
      const auto copy =
          std::make_shared<std::vector<std::byte>>(view.bytes.begin(), view.bytes.end());
      view.bytes = *copy;
      view.owner = copy;
      first_.emplace(view.name, view);
    }
  }

  RunSummary run(CheckpointStore* store = nullptr) {
    trained.clear();
    data->asked_for.clear();
    const TrainingHooks hooks{.sinks = {this},
                              .stop_requested =
                                  [this] {
                                    after_step();
                                    return false;
                                  },
                              .budget = [this] { return next_budget(); }};
    TorchEngine engine(config, parts);
    return TrainingLoop(config, engine, hooks, store).run();
  }

  /// Back to the first weights and an optimizer that has seen no step.
  void start_over() {
    const BudgetLifted unlimited(parts.on);
    restore_network(parts.network, first_);
    parts.runner->optimizer().restore(first_);
    parts.runner->gradient_control().restore(first_);
    parts.runner->start_interval();
  }

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all = parts.network.module->parameters();
    for (const at::Tensor& buffer : parts.network.module->buffers()) all.push_back(buffer);
    return all;
  }

  bool is_finite() const {
    return std::ranges::all_of(tensors(), [](const at::Tensor& tensor) {
      return at::isfinite(tensor).all().item<bool>();
    });
  }

  /// Whether every epoch saw each training sample exactly once.
  bool each_sample_once(std::size_t epochs) const {
    if (trained.size() != epochs) return false;
    return std::ranges::all_of(trained, [this](auto epoch) {
      std::ranges::sort(epoch.second);
      return epoch.second == parts.data.training_ids;
    });
  }

  virtual std::optional<Budget> next_budget() { return {}; }
  virtual void after_step() {
    std::vector<std::int64_t>& seen = trained[data->epoch];
    seen.insert(seen.end(), data->asked_for.begin(), data->asked_for.end());
    data->asked_for.clear();
  }
  void notice(const std::string& message) override {
    if (message.starts_with("out of memory: repeating the step")) data->asked_for.clear();
    Recorder::notice(message);
  }

  RunConfig config;
  RunParts parts;
  std::shared_ptr<WatchedData> data;
  std::map<std::int64_t, std::vector<std::int64_t>> trained;  // by epoch

 private:
  std::vector<StateView> state() const {
    std::vector<StateView> all = network_state(parts.network);
    for (const Stateful* part : {static_cast<Stateful*>(&parts.runner->optimizer()),
                                 static_cast<Stateful*>(&parts.runner->gradient_control())})
      for (StateView& view : part->state()) all.push_back(std::move(view));
    return all;
  }

  StateMap first_;  // in memory that no budget counts
};

}  // namespace triaccel
