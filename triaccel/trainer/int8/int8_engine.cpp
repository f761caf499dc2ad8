#include "triaccel/trainer/int8/int8_engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "triaccel/base/clock.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/int8/products/product.h"
#include "triaccel/int8/training/step_memory.h"
#include "triaccel/int8_run/weights_file.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/telemetry/records/appended_file.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

Int8Data load(const RunConfig& config) {
  set_threads(static_cast<int>(config.device.threads));
  return load_int8_data(int8_data_options(config));
}

StepPlan plan_of(const RunConfig& config, const int8::Network& network,
                 const int8::StepOptions& step) {
  StepPlan plan{.batch_size = config.train.batch * config.train.accumulate,
                .layers = {network.layers.size(), LayerPlan{.compute = Precision::Int8}}};
  plan.micro_batch_size = step.micro_batch > 0
                              ? std::min<std::int64_t>(step.micro_batch, plan.batch_size)
                              : plan.batch_size;
  set_boundary(plan, step.bp_layers);
  return plan;
}

/// Writes weights and slopes at the end of a run.
class Int8Files final : public Sink {
 public:
  Int8Files(Int8Engine& engine, fs::path directory)
      : engine_(engine), directory_(std::move(directory)) {}

  void finish(const RunSummary&) override {
    save_int8_weights(directory_ / kInt8WeightsFile, engine_.state());
    const std::vector<std::int8_t>& slopes = engine_.slopes();
    write_atomically(directory_ / kSlopesFile,
                     {reinterpret_cast<const char*>(slopes.data()), slopes.size()});
  }

 private:
  Int8Engine& engine_;
  fs::path directory_;
};

}  // namespace

Int8Engine::Int8Engine(const RunConfig& config)
    : model_(config.model.name),
      data_(load(config)),
      train_(data_.train.reader()),
      test_(data_.test.reader()),
      state_(int8::initial_state(int8_network_for(config, data_),
                                 static_cast<std::uint64_t>(config.train.seed))),
      options_(int8_options(config, state_.network, std::ssize(data_.split.training))),
      plan_(plan_of(config, state_.network, options_.step)),
      order_(c10::kCUDA),
      notices_(data_.notices) {
  int8::scale_logits(state_, options_.recipe);
  if (!config.model.init_from.empty()) load_int8_weights(state_, config.model.init_from);
  choose_device_for_steps(config);
  notices_.push_back(text(
      "integer kernel ", device_ ? "cuda" : int8::find_product_kernel(options_.step.kernel)->name));
}

/// "auto" takes what a GPU cannot do to the CPU.
void Int8Engine::choose_device_for_steps(const RunConfig& config) {
  const std::string& wanted = config.device.device;
  if (!choose_device(wanted).is_cuda()) return;
  try {
    device_ = std::make_unique<Int8Device>(data_, state_.network, options_.at(state_.step),
                                           plan_.batch_size);
  } catch (const UsageError& error) {
    if (wanted == "cuda") throw;
    notices_.push_back(text("training on the CPU instead of the GPU: ", error.what()));
  }
}

RunInfo Int8Engine::info() const {
  RunInfo info{.model = model_,
               .device = device_text(device()),
               .device_type = c10::DeviceTypeName(device().type(), /*lower_case=*/true)};
  for (const int8::Layer& layer : state_.network.layers) info.layer_names.push_back(layer.name);
  return info;
}

/// The plan stays what it is.
ControlSetup Int8Engine::control_setup() const {
  return {.plan = plan_, .kinds = std::vector<LayerKind>(plan_.layers.size())};
}

std::vector<std::string> Int8Engine::take_notices() { return std::exchange(notices_, {}); }

std::unique_ptr<Sink> Int8Engine::files_in(const fs::path& directory) {
  return std::make_unique<Int8Files>(*this, directory);
}

void Int8Engine::complete(RunSummary& summary) const {
  summary.data_bytes = data_bytes();
  summary.predicted_bytes =
      device_ ? device_->bytes()
              : int8::step_memory(state_.network, static_cast<std::int32_t>(plan_.batch_size),
                                  options_.step)
                    .total();
  for (const int8::Layer& layer : state_.network.layers) summary.parameters += layer.weight_count();
}

void Int8Engine::run(const StepPlan&, const Sampler& sampler, std::int64_t count,
                     const StepPosition& at) {
  const int8::StepOptions now = options_.at(static_cast<std::uint64_t>(at.step));
  if (device_)
    device_->step(state_, order_.upcoming(sampler, count), now);
  else
    add(cpu_.train(state_, train_, sampler.upcoming(count), now));
  steps_done_ = at.step + 1;
  interval_samples_ += count;
}

void Int8Engine::add(const int8::StepReport& report) {
  slopes_.push_back(static_cast<std::int8_t>(report.slope));
  interval_correct_ += report.correct;
  interval_loss_ += (int8_nats(report.loss[0]) + int8_nats(report.loss[1])) / 2;
}

StepReport Int8Engine::collect() {
  if (device_)
    for (const int8::StepReport& report : device_->take_reports()) add(report);
  const auto samples = static_cast<double>(std::exchange(interval_samples_, 0));
  StepReport report{.loss = std::exchange(interval_loss_, 0) / samples,
                    .accuracy = static_cast<double>(std::exchange(interval_correct_, 0)) / samples,
                    .memory = take_peak()};
  // What a weight moves by on average for each unit of noise; backpropagation counts in bits.
  if (int8::streams_of(state_.network, options_.step).perturbed())
    report.learning_rate =
        std::ldexp(1.0, -options_.at(static_cast<std::uint64_t>(steps_done_)).rate_exponent);
  const auto purpose = [&](MemoryPurpose which) -> std::int64_t& {
    return report.memory.peak_by_purpose[static_cast<std::size_t>(which)];
  };
  purpose(MemoryPurpose::Weights) = state_.network.weight_bytes;
  purpose(MemoryPurpose::Activations) = own_bytes() - state_.network.weight_bytes;
  purpose(MemoryPurpose::Data) = data_bytes();
  return report;
}

EvaluationReport Int8Engine::evaluate(bool validation, const StepPlan& plan,
                                      const std::function<void()>& alive) {
  const Stopwatch watch;
  std::vector<std::int64_t> ids = data_.split.validation;
  if (!validation) {
    ids.resize(static_cast<std::size_t>(data_.test.count));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  const int8::Evaluation sum = device_ ? device_->evaluate(state_, /*test=*/!validation, ids)
                                       : cpu_.evaluate(state_, validation ? train_ : test_, ids,
                                                       plan.batch_size, options_.step, alive);
  const auto count = static_cast<double>(ids.size());
  return {.samples = std::ssize(ids),
          .loss = int8_nats(sum.loss) / count,
          .accuracy = static_cast<double>(sum.correct) / count,
          .seconds = watch.seconds()};
}

std::int64_t Int8Engine::own_bytes() const {
  return device_ ? device_->bytes() : state_.network.weight_bytes + cpu_.arena_bytes();
}

std::int64_t Int8Engine::data_bytes() const {
  return data_.train.bytes() + data_.test.bytes() + cpu_.batch_bytes();
}

MemoryReport Int8Engine::take_peak() {
  const std::int64_t peak = own_bytes() + data_bytes();
  return {.used = peak, .peak = peak, .reserved = peak};
}

const int8::State& Int8Engine::state() {
  if (device_) device_->fetch(state_);
  return state_;
}

SavedCheckpoint Int8Engine::save(CheckpointStore& store, const CheckpointInfo& info,
                                 std::vector<StateView> of_loop) {
  const CheckpointFile weights{.name = kWeightsFile, .tensors = int8_state_views(state())};
  CheckpointFile trainer{.name = kTrainerFile, .tensors = std::move(of_loop)};
  trainer.tensors.push_back(number_state<std::uint8_t>("slopes", {slopes_.begin(), slopes_.end()}));
  return store.save(info, std::array{weights, trainer});
}

void Int8Engine::restore(const LoadedCheckpoint& checkpoint, const StepPlan&) {
  const auto slopes =
      numbers_from<std::uint8_t>(file_of(checkpoint, kTrainerFile), "slopes", checkpoint.info.step);
  restore_int8_state(state_, file_of(checkpoint, kWeightsFile));
  if (device_) device_->forget();
  slopes_.assign(slopes.begin(), slopes.end());
}

std::vector<std::int8_t> read_slopes(const fs::path& run_directory) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const std::string bytes = read_text_file(run_directory / kSlopesFile, most);
  const std::vector<std::int8_t> slopes(bytes.begin(), bytes.end());  // on Arm a char has no sign
  for (const std::int8_t slope : slopes)
    if (slope < -int8::kMostSlope || slope > int8::kMostSlope)
      throw StorageError(text((run_directory / kSlopesFile).string(),
                              ": a byte is out of range; is the file damaged?"));
  return slopes;
}

void redo_int8(int8::State& first, const RunConfig& config, std::int64_t samples_per_epoch,
               std::span<const std::int8_t> slopes) {
  const Int8Options options = int8_options(config, first.network, samples_per_epoch);
  for (const std::int8_t slope : slopes) int8::replay_step(first, slope, options.at(first.step));
}

}  // namespace triaccel
