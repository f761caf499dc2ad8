#include "triaccel/saved/saved_tensor_engine.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <utility>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

thread_local SavedTensorKeeper* active_keeper = nullptr;

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

/// The base class but for its saved-tensor hooks: libtorch's own take Python objects.
class SavedTensorEngine final : public torch::autograd::Engine {
 public:
  ~SavedTensorEngine() override { stop(); }

  /// By the base engine, whose threads may be running already: libtorch starts those of one engine
  /// only in a process.
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return get_base_engine().execute(roots, inputs, keep_graph, create_graph, accumulate_grad,
                                     outputs);
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (active_keeper == nullptr) return nullptr;
    return std::make_unique<KeeperHooks>(*active_keeper);
  }

  static Engine& instance() {
    static SavedTensorEngine engine;
    return engine;
  }
};

}  // namespace

void install_saved_tensor_engine() {
  using torch::autograd::Engine;
  const Engine& current = Engine::get_default_engine();
  const bool installed = typeid(current) == typeid(SavedTensorEngine);
  require(installed || &current == &Engine::get_base_engine(), "install_saved_tensor_engine",
          "another autograd engine is in use, as under Python; saved tensors can be compressed in "
          "C++ programs only");
  if (!installed) torch::autograd::set_default_engine_stub(&SavedTensorEngine::instance);
}

SavedTensorScope::SavedTensorScope(SavedTensorKeeper& keeper)
    : previous_(std::exchange(active_keeper, &keeper)) {}
SavedTensorScope::~SavedTensorScope() { active_keeper = previous_; }

SavedTensorPause::SavedTensorPause() : previous_(std::exchange(active_keeper, nullptr)) {}
SavedTensorPause::~SavedTensorPause() { active_keeper = previous_; }

}  // namespace triaccel
