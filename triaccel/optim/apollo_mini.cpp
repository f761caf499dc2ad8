#include "triaccel/kernels/update/apollo_mini.h"

#include <ATen/ATen.h>

#include <optional>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/optim/compact_optimizer.h"
#include "triaccel/optim/moment_optimizer.h"

namespace triaccel {
namespace {

// Separates the projections from other random streams of the seed.
constexpr std::uint64_t kProjections = 0x6170;

/// Of a parameter's projections: the same in any selection of parameters.
std::uint64_t projection_seed(const OptimizerOptions& options, const std::string& name) {
  std::uint64_t hash = mixed_hash(options.seed, kProjections);
  for (const char letter : name) hash = mixed_hash(hash, static_cast<unsigned char>(letter));
  return hash;
}

/// APOLLO-Mini: matrices step along the gradient, as far as AdamW would in a random projection to
/// one row or column; other parameters as under AdamW. States "first_moment/<parameter>",
/// "second_moment/<parameter>" and, of matrices, "update_norm/<parameter>".
class ApolloMini final : public CompactOptimizer {
 public:
  ApolloMini(const OptimizerOptions& options, const std::vector<ParameterRef>& parameters)
      : step_{.adamw = adamw_step(options), .projection_interval = options.projection_interval} {
    require_exact_state(options);
    require(options.projection_interval >= 1, "--optimizer",
            "projection_interval must be at least 1, got ", options.projection_interval);
    std::vector<ParameterRef> vectors, matrices;
    for (const ParameterRef& parameter : parameters)
      (matrix_layout(parameter).is_vector() ? vectors : matrices).push_back(parameter);
    if (!vectors.empty() || matrices.empty()) add_vectors(std::move(vectors));
    if (!matrices.empty()) add_matrices(options, std::move(matrices));
  }

  void update(const UpdateInputs& inputs) override {
    if (vectors_) {
      vectors_->bind_gradients();
      update_tensors<kernels::cpu::adamw_update, kernels::cuda::adamw_update>(
          "adamw_update", *vectors_, inputs, step_.adamw);
    }
    if (matrices_) {
      matrices_->bind_gradients();
      update_tensors<kernels::cpu::apollo_mini_update, kernels::cuda::apollo_mini_update>(
          "apollo_mini_update", *matrices_, inputs, step_);
    }
  }

 private:
  void add_vectors(std::vector<ParameterRef> vectors) {
    vectors_.emplace("--optimizer", std::move(vectors));
    const std::vector<at::Tensor> first = vectors_->add_state(1), second = vectors_->add_state(2);
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::string& name = vectors_->parameters()[i].name;
      add_state("first_moment/" + name, first[i]);
      add_state("second_moment/" + name, second[i]);
    }
  }

  void add_matrices(const OptimizerOptions& options, std::vector<ParameterRef> matrices) {
    matrices_.emplace("--optimizer", std::move(matrices));
    std::vector<std::int64_t> state_sizes, workspace_sizes;
    for (std::size_t i = 0; i < matrices_->parameters().size(); ++i) {
      const ParameterRef& parameter = matrices_->parameters()[i];
      kernels::TensorEntry& entry = matrices_->entry(i);
      entry.rows = matrix_layout(parameter).rows;
      entry.seed = projection_seed(options, parameter.name);
      state_sizes.push_back(kernels::apollo_mini_state_size(kernels::as_matrix(entry)));
      workspace_sizes.push_back(kernels::apollo_mini_workspace_size(kernels::as_matrix(entry)));
    }
    const std::vector<at::Tensor> states = zeroed_parts(state_sizes, matrices_->device());
    workspaces_ = zeroed_parts(workspace_sizes, matrices_->device());
    for (std::size_t i = 0; i < states.size(); ++i) bind(i, states[i]);
  }

  void bind(std::size_t i, const at::Tensor& state) {
    const auto& [name, parameter, layer] = matrices_->parameters()[i];
    kernels::TensorEntry& entry = matrices_->entry(i);
    entry.state1 = state.mutable_data_ptr<float>();
    entry.state2 = workspaces_[i].mutable_data_ptr<float>();
    const kernels::MatrixTensor matrix = kernels::as_matrix(entry);
    const std::int64_t size = kernels::projected_size(matrix);
    const auto moment = [&, &parameter = parameter](std::int64_t begin) {
      const at::Tensor memory = state.narrow(0, begin, size);
      const MatrixLayout layout = matrix_layout(matrices_->parameters()[i]);
      return kernels::keeps_rows(matrix) ? per_row(memory, parameter, layout)
                                         : per_column(memory, parameter, layout);
    };
    add_state("first_moment/" + name, moment(0));
    add_state("second_moment/" + name, moment(size));
    add_state("update_norm/" + name, state.narrow(0, 2 * size, 1));
  }

  kernels::ApolloMiniStep step_;
  std::optional<TensorBundle> vectors_, matrices_;
  std::vector<at::Tensor> workspaces_;  // index = matrix
};

}  // namespace

std::unique_ptr<Optimizer> make_apollo_mini(const OptimizerOptions& options,
                                            std::vector<ParameterRef> parameters) {
  return std::make_unique<ApolloMini>(options, parameters);
}

}  // namespace triaccel
