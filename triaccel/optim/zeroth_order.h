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
  double epsilon = 5e-3;        // how far the weights are moved to look at the loss
  std::int64_t directions = 1;  // random directions a step, whose estimates are averaged
  bool one_sided = false;       // (L(w + ez) - L(w)) / e instead of the central difference
  bool sign = false;            // only the sign of the projected gradient counts
  double clip = 0;              // largest magnitude of the projected gradient; 0: any
  double momentum = 0;          // over the last `momentum_steps` estimates, redrawn, not stored
  std::int64_t momentum_steps = 8;
  bool clean_pass = false;  // backprop layers learn from one more pass with undisturbed weights
  std::uint64_t seed = 1;
};

/// Trains layers by the loss alone (Spall 1992, as Malladi et al. 2023 do it in place): the weights
/// go a little along a random direction and back, and follow the slope seen there. Directions are
/// redrawn from (seed, step, direction, element), never stored; the weights are moved in place and
/// put back to the last bit (Note [Weights on a grid]), so training takes the memory of inference.
///
/// A step: begin_step(); for each evaluation go_to() and the losses of all passes; estimate()
/// between GradientControl::gather and decide; update(). Nothing waits for the device.
class ZerothOrder final : public Stateful {
 public:
  /// `parameters` are all of the network's.
  ZerothOrder(const ZerothOrderOptions& options, std::vector<ParameterRef> parameters);

  /// The layers whose plan says ZerothOrder train this way from now on; see ZoTensors::choose.
  /// Costs nothing where they have not changed.
  void follow(const std::vector<LayerPlan>& layers);
  bool active() const { return !tensors_.empty(); }
  bool alone() const { return alone_; }  // no layer is trained by backpropagation
  const std::vector<at::Tensor>& weights() const { return tensors_.chosen(); }

  bool wants_clean_pass() const { return options_.clean_pass; }

  /// How often the loss of the batch is looked at in a step.
  std::int64_t evaluations() const;

  void begin_step(std::int64_t passes);

  /// Moves the weights to where the evaluation sees them.
  void go_to(std::int64_t evaluation);

  /// Where ops/cross_entropy.h leaves the losses of one pass; the first pass is the largest.
  at::Tensor losses(std::int64_t evaluation, std::int64_t pass, std::int64_t rows,
                    std::int64_t classes);

  /// Puts the weights back.
  void go_back() { move_to({}); }

  /// Ends a step that is not to have happened. `moved` is false in a captured one, where nothing
  /// has happened; else the weights are put back.
  void abandon_step(bool moved);

  /// The projected gradients, from the losses. One that is not finite is told to `moments`
  /// (UpdateInputs::moments) of the first layer trained this way, so that the step is skipped.
  void estimate(const at::Tensor& moments);

  /// Puts the weights back and applies the estimates, in one pass over them. `step_control` as
  /// GradientControl has it.
  void update(const at::Tensor& learning_rates, const at::Tensor& step_control);

  /// The host's count of steps and rates: after every step, captured or not.
  void note_step(double learning_rate);

  std::int64_t steps_done() const { return steps_; }

  /// The steps since the last call; waits for the device. To be called at least every
  /// kStepsRemembered steps.
  std::vector<ZerothOrderStep> take_steps();
  bool must_take_steps() const;
  static constexpr std::int64_t kStepsRemembered = 1024;

  /// Does to the weights what that step did; steps must be redone in order.
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
  std::vector<double> rates_;  // of the steps not taken yet
};

}  // namespace triaccel
