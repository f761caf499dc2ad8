#include "triaccel/trainer/loop/torch_engine.h"

#include <torch/torch.h>

#include <array>
#include <numeric>
#include <utility>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/out_of_memory.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/telemetry/records/zeroth_order_file.h"
#include "triaccel/trainer/config/run_config.h"
#include "triaccel/trainer/loop/control_setup.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

constexpr const char* kPasses = "saved.passes";
constexpr const char* kPixelMeans = "data.pixel_means";
constexpr const char* kPixelDeviations = "data.pixel_deviations";

void append(std::vector<StateView>& to, std::vector<StateView> more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// The random generators a forward pass may draw from, by name.
std::vector<std::pair<std::string, at::Generator>> generators(const RunParts& parts) {
  std::vector<std::pair<std::string, at::Generator>> all = {
      {"generator/cpu", at::globalContext().defaultGenerator(at::Device(at::kCPU))}};
  if (parts.on.device.is_cuda())
    all.emplace_back("generator/cuda", at::globalContext().defaultGenerator(parts.on.device));
  return all;
}

/// The parts whose state goes into the optimizer's file.
std::vector<Stateful*> optimizer_parts(const RunParts& parts) {
  std::vector<Stateful*> all = {&parts.runner->optimizer(), &parts.runner->gradient_control()};
  if (parts.runner->weight_average() != nullptr) all.push_back(parts.runner->weight_average());
  if (parts.runner->zeroth_order() != nullptr) all.push_back(parts.runner->zeroth_order());
  return all;
}

/// Whatever images there are, they are normalized as those that the network was trained on.
void normalize_as_trained(LoadedData& data, const StateMap& trainer) {
  const std::int64_t channels = std::ssize(data.statistics.mean);
  if (channels == 0 || !trainer.contains(kPixelMeans)) return;  // of an earlier version
  data.statistics = {.mean = numbers_from<float>(trainer, kPixelMeans, channels),
                     .deviation = numbers_from<float>(trainer, kPixelDeviations, channels)};
  data.train->normalize_by(data.statistics);
  data.test->normalize_by(data.statistics);
}

}  // namespace

TorchEngine::TorchEngine(const RunConfig& config, RunParts& parts)
    : config_(parts.config),
      parts_(parts),
      order_(parts.on.device, parts.data.train.get()),
      evaluator_(parts.network, parts.on.device, parts.runner->graphs(), parts.task.loss,
                 parts.task.metric),
      schedule_(schedule_of(config, std::ssize(parts.data.training_ids))),
      curvature_(config, parts),
      profiler_(*parts.runner, parts.on.gauge),
      notices_(parts.data.notices) {}

TorchEngine::TorchEngine(const RunConfig& config, std::unique_ptr<RunParts> owned)
    : TorchEngine(config, *owned) {
  owned_ = std::move(owned);
}

TorchEngine::TorchEngine(const RunConfig& config, UnderBudget under_budget)
    : TorchEngine(config, std::make_unique<RunParts>(config, std::nullopt, std::nullopt, OwnTask(),
                                                     under_budget)) {}

RunInfo TorchEngine::info() const {
  RunInfo info{.model = parts_.network.name,
               .device = device_text(parts_.on.device),
               .device_type = c10::DeviceTypeName(parts_.on.device.type(), /*lower_case=*/true),
               .budget_bytes = parts_.on.budget_bytes};
  for (const LayerInfo& layer : parts_.network.layers.layers())
    info.layer_names.push_back(layer.name);
  return info;
}

ControlSetup TorchEngine::control_setup() const { return control_setup_for(config_, parts_); }

const std::vector<std::int64_t>& TorchEngine::training_ids() const {
  return parts_.data.training_ids;
}

std::vector<std::string> TorchEngine::take_notices() {
  if (GraphCache* graphs = parts_.runner->graphs(); graphs != nullptr && graphs->thrashes())
    notices_.push_back(
        "plans change too often for CUDA graphs to pay off; try a larger --dwell or --graphs off");
  return std::exchange(notices_, {});
}

void TorchEngine::record_choices(RunConfig& config) const {
  config.activations = config_.activations;
  config.train.optimizer_state = config_.train.optimizer_state;
  config.device.graphs = config_.device.graphs;
  config.control.weight_casts = config_.control.weight_casts;
  config.train.pass_size = config_.train.pass_size;
  if (parts_.method.per_layer) config.control.kernels = parts_.kernels;
  if (!parts_.data.image_options.class_names.empty())
    config.data.image_size = parts_.data.shape.image_size;
}

std::unique_ptr<Sink> TorchEngine::files_in(const std::filesystem::path& directory) {
  ZerothOrder* const zeroth = parts_.runner->zeroth_order();
  return std::make_unique<ZerothOrderFile>(directory, zeroth == nullptr ? 0 : zeroth->steps_done());
}

void TorchEngine::complete(RunSummary& summary) const {
  const LoadedData& data = parts_.data;
  summary.data_bytes = data.train->bytes() + data.test->bytes();
  summary.host_data_bytes = data.train->host_bytes() + data.test->host_bytes();
  summary.host_state_bytes = parts_.runner->optimizer().host_state_bytes();
  summary.predicted_bytes = parts_.predicted_bytes;
  if (const SavedStore* saved = parts_.runner->saved())
    summary.host_activation_bytes = saved->host_bytes();
  summary.parameters = parameter_count(parts_.network);
  if (const GraphCache* graphs = parts_.runner->graphs()) {
    summary.graph_replays = graphs->counts().replays;
    summary.graph_captures = graphs->counts().captures;
    summary.graph_capture_seconds = graphs->counts().capture_seconds;
  }
}

void TorchEngine::start() { parts_.network.module->train(); }

/// The last steps of an epoch share its last samples evenly: statistics of batch norm over a few
/// samples have made gradients a hundred times as large.
std::int64_t TorchEngine::samples_of_step(const StepPlan& plan, std::int64_t left) const {
  const std::int64_t batch = plan.batch_size;
  if (left <= batch || (left != batch + 1 && 2 * left >= 3 * batch)) return std::min(batch, left);
  const std::int64_t half = divide_up(left, std::int64_t{2});
  return left - half > 1 ? half : left;  // none of a single sample
}

void TorchEngine::run(const StepPlan& plan, const Sampler& sampler, std::int64_t count,
                      const StepPosition& at) {
  reported_ids_.clear();
  learning_rate_ = learning_rate_at(schedule_, at.scheduled_samples, count);
  zeroth_order_rate_ = zeroth_order_rate_at(config_, at.epoch);
  const at::Tensor ids = catching_out_of_memory([&] { return order_.upcoming(sampler, count); });
  parts_.runner->run(plan, *parts_.data.train, ids,
                     {.augment = augments(config_),
                      .epoch = sampler.epoch(),
                      .seed = static_cast<std::uint64_t>(config_.train.seed)},
                     learning_rate_, zeroth_order_rate_);
  interval_ids_.push_back(ids);
}

void TorchEngine::wait() { synchronize(parts_.on.device); }

StepReport TorchEngine::collect() {
  StepReport report = parts_.runner->collect();
  report.learning_rate = parts_.method.backprop ? learning_rate_ : zeroth_order_rate_;
  reported_ids_ = std::exchange(interval_ids_, {});
  return report;
}

std::optional<CurvatureReport> TorchEngine::probe_curvature(const Sampler& sampler,
                                                            std::int64_t step) {
  return curvature_.probe([&] { return order_.upcoming(sampler, curvature_.batch()); }, step);
}

ActivationProfile TorchEngine::profile(const ProfileRequest& request, const StepPlan& plan,
                                       const Sampler& sampler) {
  const at::Tensor ids =
      catching_out_of_memory([&] { return order_.upcoming(sampler, kProfileSamples); });
  return profiler_.measure(request, plan, profiled_samples(parts_, ids), ids.numel());
}

std::int64_t TorchEngine::skips_so_far() const {
  return parts_.on.device.is_cpu() ? parts_.runner->gradient_control().consecutive_skips() : 0;
}

Diagnosis TorchEngine::diagnose(const StepPlan& plan, bool with_samples) {
  return triaccel::diagnose(
      parts_.network, *parts_.data.train,
      with_samples && !parts_.task.loss ? reported_ids_ : std::vector<at::Tensor>(),
      parts_.runner->forward_rules(), plan.micro_batch_size);
}

EvaluationReport TorchEngine::evaluate(bool validation, const StepPlan& plan,
                                       const std::function<void()>& alive) {
  parts_.runner->follow(plan);  // decided, but no step has run by it yet
  std::optional<ScopedAverage> averaged;
  if (WeightAverage* average = parts_.runner->weight_average()) averaged.emplace(*average);
  std::vector<std::int64_t> ids = parts_.data.validation_ids;
  if (!validation) {
    ids.resize(static_cast<std::size_t>(parts_.data.test->size()));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  }
  return evaluator_.evaluate(validation ? *parts_.data.train : *parts_.data.test, ids,
                             {.forward = parts_.runner->forward_rules(),
                              .shape = shape_hash(plan),
                              .batch = plan.micro_batch_size},
                             alive);
}

std::string TorchEngine::set_budget(const Budget& budget) {
  const auto named = [](std::int64_t bytes) { return bytes > 0 ? byte_text(bytes) : "none"; };
  RunDevice& on = parts_.on;
  const std::int64_t bytes = budget.bytes_on(device_total_bytes(on.device));
  const std::int64_t before = std::exchange(on.budget_bytes, bytes);
  if (bytes > 0 && bytes < on.gauge.read().reserved) {  // what captured steps and caches hold
    drop_captured();
    on.gauge.release_cache();
  }
  on.gauge.set_limit(bytes);
  return text("memory budget ", named(before), " -> ", named(bytes));
}

MemoryReport TorchEngine::take_peak() {
  const MemoryReport memory = parts_.on.gauge.read();
  parts_.on.gauge.reset_peak();
  return memory;
}

SavedCheckpoint TorchEngine::save(CheckpointStore& store, const CheckpointInfo& info,
                                  std::vector<StateView> of_loop) {
  // Staging bytes for the disk is no part of what the budget is for.
  const BudgetLifted unlimited(parts_.on);
  CheckpointFile weights{.name = kWeightsFile, .tensors = network_state(parts_.network)};
  CheckpointFile optimizer{.name = kOptimizerFile};
  for (const Stateful* part : optimizer_parts(parts_)) append(optimizer.tensors, part->state());
  CheckpointFile trainer{.name = kTrainerFile, .tensors = std::move(of_loop)};
  append(trainer.tensors, curvature_.state());
  if (SavedStore* saved = parts_.runner->saved())
    trainer.tensors.push_back(
        number_state<std::int64_t>(kPasses, {saved->passes().item<std::int64_t>()}));
  if (const PixelStatistics& pixels = parts_.data.statistics; !pixels.mean.empty()) {
    trainer.tensors.push_back(number_state(kPixelMeans, pixels.mean));
    trainer.tensors.push_back(number_state(kPixelDeviations, pixels.deviation));
  }
  for (const auto& [name, generator] : generators(parts_))
    trainer.tensors.push_back(tensor_state(name, generator.get_state()));
  return store.save(info, std::array{weights, optimizer, trainer});
}

void TorchEngine::restore(const LoadedCheckpoint& checkpoint, const StepPlan& plan) {
  restore_network(parts_.network, file_of(checkpoint, kWeightsFile));
  const StateMap& optimizer = file_of(checkpoint, kOptimizerFile);
  const StateMap& trainer = file_of(checkpoint, kTrainerFile);
  if (ZerothOrder* zeroth = parts_.runner->zeroth_order()) {
    // The plan says which layers have optimizer state, and the grids which bits weights have.
    zeroth->restore(optimizer);
    parts_.runner->divide_layers(plan);
  }
  for (Stateful* part : optimizer_parts(parts_)) part->restore(optimizer);
  if (parts_.runner->zeroth_order() != nullptr) drop_captured();  // the states may lie elsewhere
  parts_.runner->start_interval();
  curvature_.restore(trainer);
  normalize_as_trained(parts_.data, trainer);
  if (SavedStore* saved = parts_.runner->saved())
    saved->passes().fill_(numbers_from<std::int64_t>(trainer, kPasses, 1).front());
  for (auto& [name, generator] : generators(parts_)) {
    if (!trainer.contains(name)) continue;  // of a run on a device without it
    at::Tensor state = generator.get_state();
    restore_tensor(state, trainer, name);
    generator.set_state(state);
  }
  interval_ids_.clear();
  reported_ids_.clear();
  parts_.runner->follow(plan);  // it may be evaluated before it trains
}

}  // namespace triaccel
