#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "triaccel/ops/conv/max_pool.h"
#include "triaccel/ops/norm/batch_norm.h"

namespace triaccel {

/// The geometry of a convolution of any dimension, as libtorch's `convolution` takes it.
struct ConvolutionGeometry {
  std::vector<std::int64_t> stride = {};
  std::vector<std::int64_t> padding = {};
  std::vector<std::int64_t> dilation = {};
  bool transposed = false;
  std::vector<std::int64_t> output_padding = {};
  std::int64_t groups = 1;
};

struct ConvolutionCall {
  const at::Tensor& input;
  const at::Tensor& weight;
  const std::optional<at::Tensor>& bias;
  ConvolutionGeometry geometry;
};

/// input [..., in] times weight [out, in], plus bias; a call of linear, addmm or matmul.
struct LinearCall {
  const at::Tensor& input;
  at::Tensor weight;  // [out, in]; may be a view of the parameter
  std::optional<at::Tensor> bias;
};

struct BatchNormCall {
  const at::Tensor& input;
  const std::optional<at::Tensor>& weight;
  const std::optional<at::Tensor>& bias;
  const std::optional<at::Tensor>& running_mean;
  const std::optional<at::Tensor>& running_var;
  bool training;
  double momentum;
  double eps;
};

/// softmax(query key^T * scale + mask) value; a call of scaled_dot_product_attention.
struct AttentionCall {
  const at::Tensor& query;
  const at::Tensor& key;
  const at::Tensor& value;
  const std::optional<at::Tensor>& mask;
  double dropout;
  bool causal;
  std::optional<double> scale;
  bool grouped_queries;
};

/// What stands in for some of libtorch's operators while an OperatorScope is open: how a layer of
/// a module that nobody rewrote computes as we say. Each function does, unless overridden, what
/// libtorch does; operands of different types meet in the wider one.
class OperatorHooks {
 public:
  virtual ~OperatorHooks() = default;
  virtual at::Tensor convolution(const ConvolutionCall& call);
  virtual at::Tensor linear(const LinearCall& call);
  virtual at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices,
                               std::int64_t padding_idx, bool scale_grad_by_freq, bool sparse);
  virtual at::Tensor batch_norm(const BatchNormCall& call);
  virtual at::Tensor dropout(const at::Tensor& input, double probability, bool training);
  virtual at::Tensor attention(const AttentionCall& call);
  /// Fills `mask` with ones and zeros: how modules drop what no dropout operator drops.
  virtual at::Tensor& bernoulli(at::Tensor& mask, double probability,
                                const std::optional<at::Generator>& generator);

  /// Operators that may fuse with the deferred operation behind their operand; empty: libtorch
  /// computes them. In place the result is the first operand itself.
  virtual std::optional<at::Tensor> activation(const at::Tensor&, Activation, bool /*in_place*/) {
    return {};
  }
  virtual std::optional<at::Tensor> sum(const at::Tensor&, const at::Tensor&, bool /*in_place*/) {
    return {};
  }
  virtual std::optional<at::Tensor> sigmoid(const at::Tensor&) { return {}; }
  /// Asked before product(), whose operands have their values.
  virtual std::optional<at::Tensor> fused_product(const at::Tensor&, const at::Tensor&) {
    return {};
  }
  /// Asked before convolution(), whose operands have their values; the result may be deferred, too.
  virtual std::optional<at::Tensor> fused_convolution(const ConvolutionCall&) { return {}; }
  /// Asked before batch_norm(), whose input has its values.
  virtual std::optional<at::Tensor> fused_norm(const BatchNormCall&) { return {}; }
  /// Operators around a convolution for which we may have better kernels; empty: libtorch's.
  virtual std::optional<at::Tensor> product(const at::Tensor&, const at::Tensor&) { return {}; }
  virtual std::optional<at::Tensor> mean_of_channels(const at::Tensor& /*map*/) { return {}; }
  virtual std::optional<at::Tensor> max_pool(const at::Tensor& /*map*/, const PoolGeometry&) {
    return {};
  }

  /// counter += 1 for a norm's count of batches; false: libtorch adds.
  virtual bool count_up(const at::Tensor& /*counter*/) { return false; }

  /// Whether anything is deferred; touch() is then called for each operand of every other operator
  /// before it runs.
  virtual bool has_pending() const { return false; }
  virtual void touch(const at::Tensor&, bool /*writes*/) {}

  /// Whether a matrix is (a view of) a weight that linear() wants to see; other products stay
  /// libtorch's.
  virtual bool owns(const at::Tensor& matrix) const = 0;
};

/// Sends this thread's operators through `hooks` until the scope ends. Inside a hook libtorch's
/// operators are its own again. Works by kernels registered under a dispatch key above autograd
/// that libtorch leaves empty (AutocastPrivateUse1): autocast's global state is not touched.
class [[nodiscard]] OperatorScope {
 public:
  explicit OperatorScope(OperatorHooks& hooks);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  OperatorHooks* previous_;
  bool was_included_;
  bool was_excluded_;
};

/// Runs `work` with libtorch's operators as they are, inside a scope or not.
void without_hooks(const std::function<void()>& work);

}  // namespace triaccel
