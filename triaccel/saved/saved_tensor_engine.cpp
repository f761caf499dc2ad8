#include "triaccel/saved/saved_tensor_engine.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <utility>

namespace triaccel {
namespace {

thread_local SavedTensorKeeper* active_keeper = nullptr;
thread_local const std::shared_ptr<const RunAgain>* active_again = nullptr;

class KeeperHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit KeeperHooks(SavedTensorKeeper& keeper) : keeper_(&keeper) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    give_back_ = std::exchange(keeper_, nullptr)->keep(tensor);
  }
  at::Tensor call_unpack_hook() override { return give_back_(); }

 private:
  SavedTensorKeeper* keeper_;
  std::function<at::Tensor()> give_back_;
};

/// The user's hooks, which give the tensor back as UserHooksScope has it.
class UserHooks final : public torch::autograd::SavedVariableHooks {
 public:
  UserHooks(std::unique_ptr<SavedVariableHooks> hooks, std::shared_ptr<const RunAgain> again)
      : hooks_(std::move(hooks)), again_(std::move(again)) {}

  void call_pack_hook(const at::Tensor& tensor) override { hooks_->call_pack_hook(tensor); }
  at::Tensor call_unpack_hook() override {
    at::Tensor tensor;
    (*again_)([&] { tensor = hooks_->call_unpack_hook(); });
    return tensor;
  }
  auto retrieve_unpack_hook_data() const
      -> decltype(SavedVariableHooks::retrieve_unpack_hook_data()) override {
    return hooks_->retrieve_unpack_hook_data();
  }

 private:
  std::unique_ptr<SavedVariableHooks> hooks_;
  std::shared_ptr<const RunAgain> again_;
};

/// The engine that was in use before, libtorch's or Python's, but for its saved-tensor hooks.
class SavedTensorEngine final : public torch::autograd::Engine {
 public:
  explicit SavedTensorEngine(Engine& before) : before_(before) {}
  ~SavedTensorEngine() override { stop(); }

  /// Its threads may be running already: libtorch starts those of one engine only in a process.
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return before_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return before_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (active_keeper != nullptr) return std::make_unique<KeeperHooks>(*active_keeper);
    std::unique_ptr<torch::autograd::SavedVariableHooks> hooks =
        before_.get_default_saved_variable_hooks();
    if (hooks == nullptr || active_again == nullptr) return hooks;
    return std::make_unique<UserHooks>(std::move(hooks), *active_again);
  }

 private:
  Engine& before_;
};

torch::autograd::Engine* engine_before = nullptr;

torch::autograd::Engine& the_engine() {
  static SavedTensorEngine engine(*engine_before);
  return engine;
}

}  // namespace

void install_saved_tensor_engine() {
  if (engine_before != nullptr) return;
  engine_before = &torch::autograd::Engine::get_default_engine();
  torch::autograd::set_default_engine_stub(&the_engine);
}

SavedTensorScope::SavedTensorScope(SavedTensorKeeper& keeper)
    : previous_(std::exchange(active_keeper, &keeper)) {}
SavedTensorScope::~SavedTensorScope() { active_keeper = previous_; }

SavedTensorPause::SavedTensorPause() : previous_(std::exchange(active_keeper, nullptr)) {}
SavedTensorPause::~SavedTensorPause() { active_keeper = previous_; }

UserHooksScope::UserHooksScope(RunAgain again)
    : again_(std::make_shared<const RunAgain>(std::move(again))),
      previous_(std::exchange(active_again, &again_)) {}
UserHooksScope::~UserHooksScope() { active_again = previous_; }

}  // namespace triaccel
