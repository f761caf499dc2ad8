#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/trainer/small_run.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel {

/// A run by the paper's rules with Hessian curvature, decided and probed every four steps, of which
/// an epoch must be a multiple.
inline RunConfig paper_run(RunConfig config) {
  config.train.method = "triaccel";
  config.train.control_interval = 4;
  config.control.policy = "paper";
  config.control.curvature = "hessian";
  config.control.curvature_every = 4;
  config.control.curvature_batch = 16;
  config.control.curvature_rules.tau = 1e30;  // lifts no layer
  config.control.batch = "off";
  return config;
}

/// The paper's rules in plain arithmetic.
struct PaperRules {
  double tau_low, tau_high;
  std::vector<double> variance = {};  // moving averages

  void add(const StepReport& report) {
    const bool first = variance.empty();
    variance.resize(report.layers.size());
    for (std::size_t l = 0; l < variance.size(); ++l) {
      const double now = report.layers[l].variance();
      variance[l] = first ? now : 0.9 * variance[l] + 0.1 * now;
    }
  }
  Precision precision(std::size_t layer) const {
    if (variance[layer] < tau_low) return Precision::Fp16;
    return variance[layer] < tau_high ? Precision::Bf16 : Precision::Fp32;
  }
  static float rate(double eigenvalue) {
    return static_cast<float>(std::max(0.1, 1 / (1 + 0.01 * std::max(0.0, eigenvalue))));
  }
};

/// Trains, and expects of every interval's plan what the rules make of the reports before it. The
/// average variances at its end.
inline std::vector<double> expect_paper_rules(RunConfig config, double tau_low, double tau_high,
                                              std::set<Precision>& used) {
  config.control.precision_rules.tau_low = tau_low;
  config.control.precision_rules.tau_high = tau_high;
  const ScratchFolder runs;
  Recorder run;
  const RunSummary summary = start_run(config, runs.path / "run", {.sinks = {&run}});
  EXPECT_EQ(summary.status, "finished");
  EXPECT_GT(run.reports.size(), 4u);
  EXPECT_EQ(summary.curvature_probes, static_cast<std::int64_t>(run.reports.size()));
  EXPECT_TRUE(std::isfinite(run.reports.back().loss));
  PaperRules rules{tau_low, tau_high};
  for (std::size_t i = 0; i + 1 < run.reports.size(); ++i) {
    const StepReport& report = run.reports[i];
    rules.add(report);
    const CurvatureReport& probe = report.curvature.value();
    EXPECT_EQ(probe.mode, CurvatureMode::Hessian);
    for (std::size_t l = 0; l < report.layers.size(); ++l) {
      const LayerPlan& layer = run.ran[i + 1].layers[l];
      EXPECT_EQ(layer.compute, rules.precision(l)) << "layer " << l << ", step " << report.step;
      EXPECT_FLOAT_EQ(layer.learning_rate_scale, PaperRules::rate(probe.layers[l].largest()))
          << "layer " << l << ", step " << report.step;
      used.insert(layer.compute);
    }
  }
  return rules.variance;
}

/// First in FP16 everywhere, then with thresholds between the variances of that run.
inline void expect_all_precisions_by_paper_rules(const RunConfig& config) {
  std::set<Precision> used;
  std::vector<double> variance = expect_paper_rules(config, 1e30, 1e30, used);
  EXPECT_EQ(used, std::set{Precision::Fp16});
  ASSERT_GT(variance.size(), 3u);
  std::ranges::sort(variance);
  used.clear();
  expect_paper_rules(config, variance[variance.size() / 3], variance[2 * variance.size() / 3],
                     used);
  EXPECT_EQ(used, (std::set{Precision::Fp32, Precision::Bf16, Precision::Fp16}));
}

}  // namespace triaccel
