#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include "triaccel/core/curvature_report.h"
#include "triaccel/core/state_view.h"

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

}  // namespace triaccel
