#include "triaccel/kernels/update/adalomo.h"

#include <ATen/ATen.h>

#include "triaccel/base/error.h"
#include "triaccel/optim/compact_optimizer.h"
#include "triaccel/optim/moment_optimizer.h"

namespace triaccel {
namespace {

/// AdaLomo: the second moment alone, of matrices by row and column. States "row_moment/<parameter>"
/// and "column_moment/<parameter>" of matrices, "second_moment/<parameter>" of others.
class AdaLomo final : public CompactOptimizer {
 public:
  AdaLomo(const OptimizerOptions& options, std::vector<ParameterRef> parameters)
      : bundle_("--optimizer", std::move(parameters)),
        step_{.weight_decay = checked_weight_decay(options)} {
    require_exact_state(options);
    std::vector<std::int64_t> state_sizes, workspace_sizes;
    for (std::size_t i = 0; i < bundle_.parameters().size(); ++i) {
      layouts_.push_back(matrix_layout(bundle_.parameters()[i]));
      bundle_.entry(i).rows = layouts_.back().rows;
      const kernels::MatrixTensor matrix = kernels::as_matrix(bundle_.entry(i));
      state_sizes.push_back(kernels::adalomo_state_size(matrix));
      workspace_sizes.push_back(kernels::adalomo_workspace_size(matrix));
    }
    const std::vector<at::Tensor> states = zeroed_parts(state_sizes, bundle_.device());
    workspaces_ = zeroed_parts(workspace_sizes, bundle_.device());
    for (std::size_t i = 0; i < states.size(); ++i) bind(i, states[i]);
  }

  void update(const UpdateInputs& inputs) override {
    bundle_.bind_gradients();
    update_tensors<kernels::cpu::adalomo_update, kernels::cuda::adalomo_update>(
        "adalomo_update", bundle_, inputs, step_);
  }

 private:
  void bind(std::size_t i, const at::Tensor& state) {
    const auto& [name, parameter, layer] = bundle_.parameters()[i];
    const MatrixLayout layout = layouts_[i];
    bundle_.entry(i).state1 = state.mutable_data_ptr<float>();
    bundle_.entry(i).state2 = workspaces_[i].mutable_data_ptr<float>();
    if (layout.is_vector()) {
      add_state("second_moment/" + name,
                state.as_strided(parameter.sizes(), parameter.strides(), state.storage_offset()));
      return;
    }
    const at::Tensor rows = per_row(state.narrow(0, 0, layout.rows), parameter, layout);
    const at::Tensor columns =
        per_column(state.narrow(0, layout.rows, layout.columns), parameter, layout);
    add_state("row_moment/" + name, layout.transposed ? columns : rows);
    add_state("column_moment/" + name, layout.transposed ? rows : columns);
  }

  TensorBundle bundle_;
  kernels::AdaLomoStep step_;
  std::vector<MatrixLayout> layouts_;   // index = parameter
  std::vector<at::Tensor> workspaces_;  // index = parameter
};

}  // namespace

std::unique_ptr<Optimizer> make_adalomo(const OptimizerOptions& options,
                                        std::vector<ParameterRef> parameters) {
  return std::make_unique<AdaLomo>(options, std::move(parameters));
}

}  // namespace triaccel
