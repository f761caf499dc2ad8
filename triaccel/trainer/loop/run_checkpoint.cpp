#include "triaccel/trainer/loop/run_checkpoint.h"

#include <torch/torch.h>

#include <array>
#include <string>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/ops/tensors/tensor_state.h"
#include "triaccel/trainer/config/config_text.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

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

const StateMap& file_of(const LoadedCheckpoint& checkpoint, const char* name) {
  const auto found = checkpoint.files.find(name);
  if (found == checkpoint.files.end())
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step, " has no ", name));
  return found->second;
}

}  // namespace

SavedCheckpoint save_run(CheckpointStore& store, const RunConfig& config, const RunState& run) {
  CheckpointFile weights{.name = kWeightsFile, .tensors = network_state(run.parts.network)};
  CheckpointFile optimizer{.name = kOptimizerFile};
  for (const Stateful* part : optimizer_parts(run.parts)) append(optimizer.tensors, part->state());
  CheckpointFile trainer{.name = kTrainerFile};
  append(trainer.tensors, run.progress.state());
  append(trainer.tensors, run.sampler.state());
  append(trainer.tensors, run.control.state());
  append(trainer.tensors, run.pending.state());
  append(trainer.tensors, plan_state(run.plan));
  for (const auto& [name, generator] : generators(run.parts))
    trainer.tensors.push_back(tensor_state(name, generator.get_state()));
  return store.save({.step = run.progress.step,
                     .config_hash = config_hash(config),
                     .commit = std::string(build_commit()),
                     .torch_version = TORCH_VERSION},
                    std::array{weights, optimizer, trainer});
}

void restore_run(const LoadedCheckpoint& checkpoint, const RunConfig& config, const RunState& run) {
  if (checkpoint.info.config_hash != config_hash(config))
    throw StorageError(text("the checkpoint of step ", checkpoint.info.step,
                            " was made under another configuration than this run's config.toml; "
                            "was that file edited?"));
  restore_network(run.parts.network, file_of(checkpoint, kWeightsFile));
  const StateMap& optimizer = file_of(checkpoint, kOptimizerFile);
  const StateMap& trainer = file_of(checkpoint, kTrainerFile);
  if (ZerothOrder* zeroth = run.parts.runner->zeroth_order()) {
    // The plan says which layers have optimizer state, and the grids which bits weights have.
    zeroth->restore(optimizer);
    run.parts.runner->divide_layers(plan_from(trainer, run.parts.network.layers.size()));
  }
  for (Stateful* part : optimizer_parts(run.parts)) part->restore(optimizer);
  run.parts.runner->start_interval();
  run.progress.restore(trainer);
  run.sampler.restore(trainer);
  run.control.restore(trainer);
  run.pending.restore(trainer);
  run.plan = plan_from(trainer, run.parts.network.layers.size());
  for (auto& [name, generator] : generators(run.parts)) {
    at::Tensor state = generator.get_state();
    restore_tensor(state, trainer, name);
    generator.set_state(state);
  }
}

}  // namespace triaccel
