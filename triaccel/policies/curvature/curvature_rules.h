#pragma once

#include "triaccel/policies/policy_options.h"

namespace triaccel {

/// Tri-Accel, section 3.2: eta_l / eta = 1 / (1 + alpha * lambda), lambda the largest of the
/// layer's eigenvalues. Read with eta(t), the schedule's rate, for the paper's eta_0.
double paper_rate_share(double lambda, double alpha);

/// min(1, cap * 2 (1 + momentum) / (eta lambda)): the step a quadratic of that curvature stays
/// stable under, and no less than the floor. Flat and concave layers keep the whole rate.
double robust_rate_share(double lambda, double learning_rate, const CurvatureRules& rules);

/// The next average of lambda, taken in log space and moved by at most `most_change`. `average` 0:
/// nothing positive was seen yet. A lambda that is not positive pulls down as far as it may.
double smoothed_curvature(double average, double lambda, const CurvatureRules& rules);

/// Whether a layer is lifted a rung after a refresh: up above tau, down below tau (1 - hysteresis).
bool lifted_by_curvature(bool lifted, double lambda, double tau, double hysteresis);

}  // namespace triaccel
