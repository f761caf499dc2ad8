#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triaccel/core/step_plan.h"
#include "triaccel/device/captured_work.h"
#include "triaccel/kernels/loss_data/step_inputs.h"

namespace triaccel {

/// The numbers of a step's samples and the learning rates of the layers, in device memory that
/// stays where it is. A step begins with place(); captured, it is replayed with
/// replay_arguments(), so that it needs nothing to be enqueued between one replay and the next.
class StepInputs {
 public:
  /// `has_zeroth_order`: some layers may be trained by zeroth-order estimates, at their own
  /// learning rate.
  StepInputs(std::int64_t layer_count, bool has_zeroth_order, c10::Device device);
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  /// Makes room for `samples` numbers. True when that moved ids(): what was captured reads them
  /// where they were.
  bool make_room(std::int64_t samples);

  /// What the next place() or replay puts in place, for layers that follow `layers`. `ids`: int64
  /// [samples], no more than there is room for, memory of the current stream.
  void set(const std::vector<LayerPlan>& layers, const at::Tensor& ids, double learning_rate,
           double zeroth_order_rate);

  /// Only enqueues.
  void place() const;

  /// Of place(), with what was set last; until the next set().
  KernelArguments replay_arguments();

  /// Of the samples set last, int64.
  at::Tensor ids() const { return ids_.narrow(0, 0, places_.samples); }
  const at::Tensor& learning_rates() const { return learning_rates_; }  // float [layers]

 private:
  at::Tensor ids_;                  // int64 [most samples so far]
  at::Tensor learning_rates_;       // float [layers]
  at::Tensor scales_;               // likewise, as the plan last said
  at::Tensor zeroth_order_scales_;  // likewise, of zeroth-order layers, else 0
  std::vector<LayerPlan> scaled_for_;
  at::Tensor source_;  // set last; once its place() or replay is enqueued, the stream's order would
                       // keep its memory, too
  kernels::StepInputs inputs_;
  kernels::StepPlaces places_;
  void* arguments_[2] = {&inputs_, &places_};
};

}  // namespace triaccel
