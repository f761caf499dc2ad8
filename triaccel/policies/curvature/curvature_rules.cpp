#include "triaccel/policies/curvature/curvature_rules.h"

#include <algorithm>
#include <cmath>

namespace triaccel {

double paper_rate_share(double lambda, double alpha) { return 1 / (1 + alpha * lambda); }

double robust_rate_share(double lambda, double learning_rate, const CurvatureRules& rules) {
  const double step = learning_rate * lambda;
  if (!(step > 0)) return 1;
  return std::clamp(rules.cap * 2 * (1 + rules.momentum) / step, rules.rate_floor, 1.0);
}

double smoothed_curvature(double average, double lambda, const CurvatureRules& rules) {
  if (average <= 0) return std::max(0.0, lambda);
  if (lambda <= 0) return average / rules.most_change;
  const double ratio = std::pow(lambda / average, 1 - rules.smoothing);
  return average * std::clamp(ratio, 1 / rules.most_change, rules.most_change);
}

bool lifted_by_curvature(bool lifted, double lambda, double tau, double hysteresis) {
  if (tau <= 0) return false;
  return lifted ? lambda >= tau * (1 - hysteresis) : lambda > tau;
}

}  // namespace triaccel
