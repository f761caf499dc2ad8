#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "triaccel/optim/moment_optimizer.h"

namespace triaccel::python {

struct ParameterGroup {
  OptimizerOptions options;
  std::vector<ParameterRef> parameters;  // may be empty
};

/// The optimizer behind triaccel.optim: groups of parameters, each with hyperparameters and a
/// learning rate of its own. Parameters are numbered through all groups.
class GroupOptimizer final : public Optimizer {
 public:
  /// All parameters on one device, with names that differ; their layers are below `layer_count`.
  GroupOptimizer(std::vector<ParameterGroup> groups, std::int64_t layer_count);

  /// From the next update on. The learning rate lives on the device, so that captured graphs
  /// follow it; the other values are those of capture. Only enqueues, and nothing when unchanged.
  void set_group(std::size_t group, const OptimizerOptions& options, double learning_rate);

  /// As any Optimizer, but `inputs.learning_rates` are factors: parameters of layer l follow
  /// learning_rates[l] times the rate of their group. AdamW's step number is the step control's
  /// for all parameters; counts() is not changed.
  void update(const UpdateInputs& inputs) override;

  /// One step as torch.optim takes it: no gradient is scaled, clipped or skipped, and every
  /// parameter with a gradient counts its own steps, in counts().
  void step();
  /// Learning rates of the layers in the next such steps, as factors.
  void set_factors(const std::vector<float>& factors);

  /// Applied steps of every parameter: F32 [parameters] on the CPU.
  const at::Tensor& counts() const { return counts_; }

  std::size_t parameter_count() const { return slots_.size(); }
  /// The moments of a parameter, as the kernels see them: FP32, or encoded in 8 bits.
  std::vector<at::Tensor> moments(std::size_t parameter) const;
  /// The same as FP32 in the parameter's shape: copies of 8-bit moments.
  std::vector<at::Tensor> moment_values(std::size_t parameter) const;
  /// Copies values into a moment: FP32 of the parameter's shape, or encoded as moments() are.
  void load_moment(std::size_t parameter, std::size_t moment, const at::Tensor& values);

  std::int64_t state_bytes() const override;
  std::int64_t host_state_bytes() const override;
  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  struct Group {
    OptimizerOptions options;
    std::unique_ptr<MomentOptimizer> optimizer;  // null: no parameters
    std::vector<std::vector<at::Tensor>> moments;
    double learning_rate = 0;
    at::Tensor rate;   // F32 scalar on the device: learning_rate
    at::Tensor rates;  // F32 [layers]: rate times the factors of an update
  };
  struct Slot {  // of a parameter
    ParameterRef parameter;
    std::size_t group, index;
  };

  void step_at(std::int64_t number);

  std::vector<Group> groups_;
  std::vector<Slot> slots_;
  at::Tensor counts_;
  at::Tensor factors_;       // F32 [layers]: of step()
  at::Tensor step_control_;  // of step(): nothing scaled or skipped
};

}  // namespace triaccel::python
