#include "triaccel/trainer/measure/saved_survey.h"

#include <algorithm>
#include <span>

#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/compression/noise_calibration.h"
#include "triaccel/policies/compression/predicted_error.h"
#include "triaccel/policies/compression/saved_planner.h"
#include "triaccel/policies/memory/held_bytes.h"
#include "triaccel/saved/saved_measurement.h"
#include "triaccel/trainer/loop/activation_profiler.h"

namespace triaccel {
namespace {

at::Tensor surveyed_ids(const RunParts& parts) {
  const std::span<const std::int64_t> all(parts.data.training_ids);
  const auto few = std::min(all.size(), static_cast<std::size_t>(kProfileSamples));
  parts.data.train->prepare(all.first(few));
  return ids_on_device(all.first(few), parts.on.device);
}

}  // namespace

SavedSurvey survey_saved(RunParts& parts) {
  const std::vector<SavedSample> samples =
      parts.runner->take_census(parts.plan, *parts.data.train, surveyed_ids(parts));
  SavedSurvey survey{.census = parts.runner->census()};
  survey.tensors = tensors_of(survey.census);
  measure_saved(survey.tensors, samples);
  return survey;
}

SavedSurvey calibrated(const SavedSurvey& survey, RunParts& parts, const SavedSettings& settings) {
  const auto noise_of = [&](const SavedSurvey& one, const std::vector<SavedPlan>& plans) {
    StepPlan step = parts.plan;
    put_saved_plans(step, one.census, one.tensors, plans);
    return parts.runner->compression_noise(step, *parts.data.train, surveyed_ids(parts));
  };
  const std::vector<SavedPlan> plans = plans_of(survey, settings);
  const CompressionNoise noise = noise_of(survey, plans);
  NoiseCalibration calibration;
  calibration.add(noise, survey.tensors, predicted_errors(survey.tensors, plans, kDropPrice));
  SavedSurvey tried{.census = survey.census, .tensors = calibration.calibrated(survey.tensors)};
  return calibration.pays(noise, noise_of(tried, plans_of(tried, settings))) ? tried : survey;
}

std::vector<SavedPlan> plans_of(const SavedSurvey& survey, const SavedSettings& settings) {
  const RunConfig::Activations& wanted = settings.activations;
  if (wanted.keep == "raw") return std::vector<SavedPlan>(survey.tensors.size());
  if (wanted.keep == "lossless") return lossless_plans(survey.tensors);
  if (wanted.keep == "offloaded") return offload_plans(survey.tensors, wanted.offload_share);
  if (const SavedPlan registered = registered_plan(wanted.keep);
      registered.codec != SavedCodec::Raw)
    return uniform_plans(survey.tensors, registered, settings.samples);
  require(wanted.keep == "compressed", "plans_of", "'", wanted.keep,
          "' chooses bit widths from gradients during a run; use compressed here");
  return plan_saved(
             survey.tensors,
             {.samples = settings.samples,
              .budget_bytes = budget_for(survey.tensors, wanted.first_ratio(), settings.samples),
              .drop_price = kDropPrice},
             CodecOptions{})
      .plans;
}

std::vector<SavedRow> saved_rows_of(const SavedSurvey& survey, const SavedSettings& settings) {
  const std::vector<SavedPlan> plans = plans_of(survey, settings);
  std::vector<double> errors = predicted_errors(survey.tensors, plans, kDropPrice);
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    errors[i] *= sensitivity_of(survey.tensors[i]);
    bytes.push_back(HeldBytes(survey.tensors[i], settings.samples).under(plans[i]));
  }
  return saved_rows(survey.census, survey.tensors,
                    {.plans = plans, .bytes = bytes, .gradient_errors = errors}, settings.samples);
}

}  // namespace triaccel
