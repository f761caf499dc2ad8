#pragma once

#include <cfloat>
#include <cstdint>

#include "triaccel/base/host_device.h"
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

TRIACCEL_HOST_DEVICE inline std::int32_t zo_evaluations(const ZoRule& rule) {
  return rule.one_sided ? rule.directions + 1 : 2 * rule.directions;
}

/// g of direction d from the summed losses of all evaluations.
TRIACCEL_HOST_DEVICE inline double zo_gradient(const ZoEstimate& e, const double* sums,
                                               std::int32_t d) {
  const double plus = sums[e.rule.one_sided ? d + 1 : 2 * d + 1];
  const double other = sums[e.rule.one_sided ? 0 : 2 * d];
  const double distance = double{e.board->epsilon} * (e.rule.one_sided ? 1 : 2);
  return (plus - other) / (distance * static_cast<double>(e.losses.rows));
}

TRIACCEL_HOST_DEVICE inline float zo_bounded(double g, const ZoRule& rule) {
  if (rule.sign) return g > 0 ? 1.0f : g < 0 ? -1.0f : 0.0f;
  const double bound = rule.clip > 0 ? double{rule.clip} : double{FLT_MAX};
  return static_cast<float>(g > bound ? bound : g < -bound ? -bound : g);
}

TRIACCEL_HOST_DEVICE inline void zo_store(const ZoEstimate& e, std::int32_t d, float g) {
  const std::int64_t step = e.board->step;
  e.history[step % e.rule.memory * e.rule.directions + d] = g;
  e.log[step % e.log_steps * e.rule.directions + d] = g;
}

/// `sums` of zo_evaluations() losses.
TRIACCEL_HOST_DEVICE inline void zo_finish(const ZoEstimate& e, const double* sums) {
  bool finite = true;
  double squares = 0;
  for (std::int32_t d = 0; d < e.rule.directions; ++d) {
    const double g = zo_gradient(e, sums, d);
    finite = finite && g - g == 0;
    squares += g * g;
  }
  for (std::int32_t d = 0; d < e.rule.directions; ++d)
    zo_store(e, d, finite ? zo_bounded(zo_gradient(e, sums, d), e.rule) : 0.0f);
  if (!finite) ++e.moments->nonfinite;
  if (finite && e.norm) e.moments->sum_of_squares += squares / e.rule.directions;
}

TRIACCEL_HOST_DEVICE inline void zo_close_step(const ZoEstimate& e, const StepControl* control) {
  if (control->skip)
    for (std::int32_t d = 0; d < e.rule.directions; ++d) zo_store(e, d, 0);
  ++e.board->step;
}

}  // namespace triaccel::kernels
