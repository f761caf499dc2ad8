#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/state_view.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/core/step_report.h"
#include "triaccel/policies/compression/compression_policy.h"
#include "triaccel/policies/compression/profile_schedule.h"

namespace triaccel {

/// Samples that a profile of activations wants, and what it makes do with where memory is short:
/// primes, since what divides a network's widths would be taken for the batch.
inline constexpr std::array<std::int64_t, 4> kProfileSizes = {11, 7, 5, 3};
inline constexpr std::int64_t kProfileSamples = kProfileSizes.front();

enum class ProfileKind {
  Values,   // statistics of every tensor that a pass saves, on fresh samples
  Noise,    // on the same samples: what compression by the plan adds to the gradient
  Tensors,  // likewise: the error of the gradient under each of other plans
};

/// What is to be measured next under a plan that may be tentative.
struct ProfileRequest {
  ProfileKind kind = ProfileKind::Values;
  bool error_gains = false;                // Values: also what errors do to gradients of weights
  std::int64_t samples = kProfileSamples;  // Values: at most
  std::vector<std::vector<SavedPlan>> plans = {};  // Tensors: by entry of the census
};

/// How many samples a profile takes next to passes of `pass` samples whose activations are
/// compressed `ratio` times. A profile keeps them uncompressed: it should not be what takes most
/// memory.
std::int64_t profile_samples(std::int64_t pass, double ratio);

/// What was measured.
struct ActivationProfile {
  ProfileKind kind = ProfileKind::Values;
  SavedCensus census = {};                    // Values
  std::vector<SavedStatistics> tensors = {};  // Values: index as tensors_of(census)
  CompressionNoise noise = {};                // Noise
  std::vector<double> errors = {};            // Tensors: relative and squared, one per plan
  std::string failure = {};                   // why nothing was measured: memory is short
};

struct ActivationOptions {
  CompressionOptions compression = {};
  SavedPlan fixed = {};              // of every tensor; Raw: the policy chooses
  std::int64_t profile_every = 500;  // steps, at most
};

/// Activation compression in the control loop: reports and profiles in, plans out.
///
/// A profile is a conversation: start_profile() says what to measure first, take() what to measure
/// next, until it asks for nothing more and the plan is final. The same reports and profiles give
/// the same plans, also across state() and restore().
class ActivationPolicy final : public Stateful {
 public:
  explicit ActivationPolicy(const ActivationOptions& options);

  /// Whether activations are to be profiled again after this step.
  bool profile_due(std::int64_t step) const;

  /// After `step` steps. `restored`: keeps the plans of an earlier session; only the tensors they
  /// are for are not known.
  ProfileRequest start_profile(std::int64_t step, const StepPlan& plan, bool restored);

  /// Plans by what was measured under `plan`; the next request, under the plan as it is then.
  std::optional<ProfileRequest> take(const ActivationProfile& found, StepPlan& plan,
                                     PolicyEvents& events);

  /// The profile that was due could not be made: not again before as many steps as between others.
  void postpone_profile(std::int64_t step) { schedule_.postpone(step); }

  /// After an interval: a plan without loss where a spike asks for one.
  void apply(const StepReport& report, StepPlan& plan, PolicyEvents& events);

  /// After an epoch, with its validation accuracy in per cent, or kUnmeasured.
  void after_epoch(double accuracy, PolicyEvents& events);

  /// After a rollback to this step: compression may have caused it.
  void after_rollback(std::int64_t step, StepPlan& plan, PolicyEvents& events);

  /// Adds to an interval's report what profiles have found since the last one.
  void complete(StepReport& report);

  /// The compression noise as last measured; without layers: never.
  const CompressionNoise& noise() const { return noise_; }

  std::vector<StateView> state() const override;
  void restore(const StateMap& saved) override;

 private:
  /// What to restore when plans made by what was measured are no better.
  struct Trial {
    CompressionPolicy policy;
    std::vector<SavedPlan> plans;
    StepPlan step;
    PolicyEvents events;  // of the plans on trial
  };
  /// Of the profile under way.
  struct Session {
    std::int64_t step = 0;
    bool restored = false;
    bool asks_noise = false;
    double ratio_before = 0;  // 0: the ratio does not rise
    CompressionNoise noise_before = {};
    int corrections = 0;              // of plans that broke their bound
    PolicyEvents events = {};         // reported once the plan is final
    std::vector<LonePlan> lone = {};  // whose errors are being measured
    std::optional<Trial> trial = {};
  };

  std::optional<ProfileRequest> take_values(const ActivationProfile& found, StepPlan& plan);
  std::optional<ProfileRequest> take_noise(const ActivationProfile& found, StepPlan& plan);
  std::optional<ProfileRequest> back_off(StepPlan& plan, bool all_the_way);
  std::optional<ProfileRequest> ask_tensors();
  std::optional<ProfileRequest> take_tensors(const ActivationProfile& found, StepPlan& plan);
  /// Plans calibrated by the noise per layer.
  std::optional<ProfileRequest> try_layers(StepPlan& plan);
  std::optional<ProfileRequest> start_trial(Trial trial, StepPlan& plan);
  std::optional<ProfileRequest> end_trial(const ActivationProfile& found, StepPlan& plan);
  std::optional<ProfileRequest> ask_noise() const;
  /// False: plans on trial exceed their bytes.
  bool put(StepPlan& plan, PolicyEvents& events);

  ActivationOptions options_;
  CompressionPolicy policy_;
  ProfileSchedule schedule_;
  CompressionNoise noise_;         // of the last profile that measured it
  bool noise_unreported_ = false;  // no tick has seen it yet
  bool noise_pending_ = false;     // nor any report
  std::int64_t mismatches_told_ = 0;
  SavedCensus census_;
  std::vector<SavedStatistics> tensors_;
  std::vector<SavedPlan> plans_;  // by tensor
  Session session_;
};

}  // namespace triaccel
