#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/ops/zeroth_order/zo_tensors.h"

namespace triaccel {

struct ZerothOrderOptions {
  double epsilon = 5e-3;        // perturbation size
  std::int64_t directions = 1;  // random directions per step, averaged
  bool one_sided = false;       // (L(w + ez) - L(w)) / e instead of the central difference
  bool sign = false;            // use only the sign of the projected gradient
  double clip = 0;              // maximum magnitude of the projected gradient; 0: unlimited
  double momentum = 0;          // over the last `momentum_steps` estimates, regenerated, not stored
  std::int64_t momentum_steps = 8;
  // Backpropagation uses a pass with unperturbed weights: an extra one, unless `one_sided`, whose
  // estimate has one anyway.
  bool clean_pass = false;
  std::uint64_t seed = 1;
};

/// Trains layers with zeroth-order gradient estimates (Spall 1992; in place as in Malladi et al.
/// 2023): the loss is evaluated with weights perturbed along random directions, and the weights
/// follow the estimated slope. Directions are regenerated from (seed, step, direction, element),
/// never stored; weights are perturbed in place and restored exactly (Note [Weights on a grid]), so
/// training takes the memory of inference.
///
/// A step: begin_step(); for each evaluation go_to() and the losses of all passes; estimate()
/// between GradientControl::gather and decide; update(). Never synchronizes with the device.
class ZerothOrder final : public Stateful {
 public:
  /// `parameters`: all parameters of the model.
  ZerothOrder(const ZerothOrderOptions& options, std::vector<ParameterRef> parameters);

  /// Selects the layers whose plan says ZerothOrder; see ZoTensors::choose. Free if unchanged.
  void follow(const std::vector<LayerPlan>& layers);
  bool active() const { return !tensors_.empty(); }
  bool alone() const { return alone_; }  // no layer is trained by backpropagation
  const std::vector<at::Tensor>& weights() const { return tensors_.chosen(); }

  /// Whether a pass with unperturbed weights follows the evaluations.
  bool wants_clean_pass() const { return options_.clean_pass && !options_.one_sided; }

  /// Loss evaluations per step.
  std::int64_t evaluations() const;

  /// The evaluation to make in a place of their order. One-sided estimates end with unperturbed
  /// weights, so that backpropagation learns from these at no extra cost.
  std::int64_t evaluation_at(std::int64_t place) const {
    return options_.one_sided ? evaluations() - 1 - place : place;
  }

  void begin_step(std::int64_t passes);

  /// Perturbs the weights for an evaluation.
  void go_to(std::int64_t evaluation);

  /// Buffer for the losses of one pass (ops/loss_data/cross_entropy.h); the first pass is the
  /// largest.
  at::Tensor losses(std::int64_t evaluation, std::int64_t pass, std::int64_t rows,
                    std::int64_t classes);

  /// Multiplies the losses of an evaluation by an F32 scalar on the device.
  void scale_losses(std::int64_t evaluation, const at::Tensor& factor);

  /// Restores the weights.
  void go_back() { move_to({}); }

  /// Cancels a step. `moved` is false while capturing, when nothing has run; otherwise the weights
  /// are restored.
  void abandon_step(bool moved);

  /// Computes the projected gradients from the losses. A non-finite one is recorded in `moments`
  /// (UpdateInputs::moments) of the first zeroth-order layer, so that the step is skipped.
  void estimate(const at::Tensor& moments);

  /// Restores the weights and applies the estimates in one pass. `step_control` is that of
  /// GradientControl.
  void update(const at::Tensor& learning_rates, const at::Tensor& step_control);

  /// Updates the host's step count and learning rates; call after every step, captured or not.
  void note_step(double learning_rate);

  std::int64_t steps_done() const { return steps_; }

  /// The steps since the last call; synchronizes with the device. Call at least every
  /// kStepsRemembered steps.
  std::vector<ZerothOrderStep> take_steps();
  bool must_take_steps() const;
  static constexpr std::int64_t kStepsRemembered = 1024;

  /// Replays a recorded step on the weights; steps must be replayed in order.
  void redo(const ZerothOrderStep& step);

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  void move_to(kernels::ZoShift wanted);
  kernels::ZoEstimate kernel_estimate(const at::Tensor& moments) const;
  kernels::ZoMove kernel_move() const;
  kernels::ZoBoard* board() const;
  void write_board();

  ZerothOrderOptions options_;
  ZoTensors tensors_;
  std::int64_t memory_;           // steps whose estimates an update uses
  std::vector<bool> layers_;      // trained this way
  std::int64_t first_layer_ = 0;  // of them
  bool alone_ = false;            // no layer is trained by backpropagation
  at::Tensor board_;              // U8 [sizeof(ZoBoard)]
  at::Tensor history_;            // F32 [memory, directions]
  at::Tensor log_;                // F32 [kStepsRemembered, directions]
  at::Tensor losses_;             // U8 [evaluations, passes, parts * sizeof(PartialScore)]
  std::int64_t passes_ = 0;
  std::int64_t rows_ = 0;      // of the batch, counted in the first evaluation
  kernels::ZoShift at_ = {};   // where the weights are
  std::int64_t steps_ = 0;     // done
  std::vector<double> rates_;  // learning rates of the steps not yet returned
};

}  // namespace triaccel
