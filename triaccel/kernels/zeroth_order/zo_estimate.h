#pragma once

#include <cstdint>

#include "triaccel/kernels/loss_data/cross_entropy.h"
#include "triaccel/kernels/update/gradient_moments.h"
#include "triaccel/kernels/update/step_control.h"
#include "triaccel/kernels/zeroth_order/zo_noise.h"

namespace triaccel::kernels {

inline constexpr std::int32_t kZoMostDirections = 256;

/// How losses become projected gradients.
struct ZoRule {
  std::int32_t directions = 1;
  std::int32_t memory = 1;  // steps that `history` holds
  bool one_sided = false;
  bool sign = false;  // only the sign of g counts
  float clip = 0;     // largest |g|; 0: any
};

/// The losses of one step. An evaluation is what one state of the weights gave: first the other
/// side (or the undisturbed weights, once, where one_sided), then theta + epsilon z.
struct ZoLosses {
  const PartialScore* parts = nullptr;  // [evaluations, parts], as cross_entropy left them
  std::int64_t parts_of_evaluation = 0;
  std::int64_t rows = 0;  // behind each evaluation
};

/// For each direction d, all in FP64 and in an order that depends on the sizes alone:
///   g = (L(theta + e z) - L(theta - e z)) / 2e,   one_sided: (L(theta + e z) - L(theta)) / e
/// then sign or clip, into history[(step % memory) * directions + d] and log[(step % log_steps) *
/// directions + d]. A g that is not finite makes all of the step 0 and counts in
/// moments->nonfinite. `norm`: sum of g^2 / directions is added to moments->sum_of_squares.
struct ZoEstimate {
  ZoBoard* board = nullptr;
  ZoRule rule = {};
  ZoLosses losses = {};
  float* history = nullptr;
  float* log = nullptr;
  std::int64_t log_steps = 1;
  LayerMoments* moments = nullptr;
  bool norm = false;
};

/// zo_estimate: the above. zo_close: one more step is done; when control->skip is set, its g are 0.
namespace cpu {
void zo_estimate(const ZoEstimate& estimate);
void zo_close(const ZoEstimate& estimate, const StepControl* control);
}  // namespace cpu
namespace cuda {
void zo_estimate(const ZoEstimate& estimate, cudaStream_t stream);
void zo_close(const ZoEstimate& estimate, const StepControl* control, cudaStream_t stream);
}  // namespace cuda

}  // namespace triaccel::kernels
