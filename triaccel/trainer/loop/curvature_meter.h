#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "triaccel/core/state_view.h"
#include "triaccel/core/step_report.h"
#include "triaccel/signals/curvature_probe.h"
#include "triaccel/signals/fisher_gram.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// A curvature probe whose eigenvalues are being computed while steps go on. A run that is saved
/// meanwhile waits for them and keeps them, so that the decision after it sees the same ones.
class PendingProbe final : public Stateful {
 public:
  /// `layers` of it may still come; without them the report is whole.
  void start(CurvatureReport report, std::future<std::vector<LayerCurvature>> layers = {});

  /// The finished probe, once; nothing when none was started. Waits.
  std::optional<CurvatureReport> take();

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  void finish() const;

  mutable std::optional<CurvatureReport> report_;
  mutable std::future<std::vector<LayerCurvature>> layers_;  // valid: still to come
};

/// Measures the curvature of the loss along every layer's weights, next to the steps of a run.
class CurvatureMeter final : public Stateful {
 public:
  CurvatureMeter(const RunConfig& config, RunParts& parts);
  CurvatureMeter(const RunConfig& config, RunParts& parts, const CurvatureOptions& options);

  std::int64_t batch() const { return options_.batch; }

  /// Probes with the training samples `ids()`. Its bytes count against the budget; it shrinks or
  /// gives up rather than exceed it. Where steps are captured nothing is returned: take() has the
  /// result at the next decision, so that no step waits for it.
  std::optional<CurvatureReport> probe(const std::function<at::Tensor()>& ids, std::int64_t step);
  std::optional<CurvatureReport> take() { return pending_.take(); }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  CurvatureReport probe_eagerly(const at::Tensor& ids, std::int64_t step);
  bool can_replay() const;
  void replay_probe(const at::Tensor& ids, std::int64_t step);

  RunParts& parts_;
  CurvatureOptions options_;
  double label_smoothing_;
  std::unique_ptr<CurvatureProbe> probe_;  // null: no run of this configuration asks
  std::unique_ptr<FisherReplay> replay_;   // once a probe has shown that it can be captured
  at::Tensor probe_ids_;                   // where a captured probe reads its samples' numbers
  bool replays_ = true;                    // until something says that it cannot be
  PendingProbe pending_;
};

}  // namespace triaccel
