#include "triaccel/trainer/measure/gradient_quality.h"

#include <ATen/ATen.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/data/epoch_order.h"
#include "triaccel/ops/loss_data/cross_entropy.h"
#include "triaccel/saved/saved_store.h"
#include "triaccel/saved/saved_tensor_engine.h"
#include "triaccel/trainer/config/options.h"
#include "triaccel/trainer/loop/activation_profiler.h"
#include "triaccel/trainer/loop/network_state.h"

namespace triaccel {
namespace {

/// The same run in FP32: the error measured is that of compression alone.
RunConfig judged_config(RunConfig config) {
  require(!estimates_losses(config), "gradient quality",
          "requires a run by backpropagation, got one of method '", config.train.method, "'");
  config = with_method(std::move(config), TrainMethod::Fp32);
  config.activations.keep = "compressed";  // so that the runner can profile what is saved
  config.activations.recompute_norms = false;
  config.activations.recompute_segments = 0;
  config.data.val_split = 0;
  config.device.graphs = GraphCapture::Off;
  return resolved(std::move(config));
}

std::vector<at::Tensor> constants_of(const Network& network) {
  std::vector<at::Tensor> all = buffers_of(network);
  for (const ParameterRef& parameter : parameters_of(network)) all.push_back(parameter.tensor);
  return all;
}

double squared(const at::Tensor& values) { return values.dot(values).item<double>(); }

}  // namespace

GradientJudge::GradientJudge(const RunConfig& config)
    : config_(judged_config(config)), parts_(config_) {
  const std::span<const std::int64_t> all(parts_.data.training_ids);
  const auto wanted = static_cast<std::size_t>(config_.train.batch);
  require(wanted <= all.size(), "gradient quality", "a batch of ", wanted, " is more than the ",
          all.size(), " samples of the set");
  parts_.network.module->train();
  survey_ = survey_saved(parts_);
  batch_ =
      gather_unprepared(*parts_.data.train, ids_on_device(all.first(wanted), parts_.on.device));
  exact_ = gradient(nullptr);
  require(squared(exact_) > 0, "gradient quality", "the gradient of this batch is zero");
}

at::Tensor GradientJudge::gradient(SavedStore* store) {
  at::manual_seed(
      static_cast<std::uint64_t>(config_.train.seed));  // what is dropped stays the same
  const std::vector<ParameterRef> parameters = parameters_of(parts_.network);
  at::Tensor logits;
  {
    std::optional<SavedTensorScope> scope;
    if (store != nullptr) {
      store->begin_pass();
      scope.emplace(*store);
    }
    logits = parts_.network.forward(batch_.inputs);
  }
  logits = logits.reshape({-1, logits.size(-1)});
  logits.backward(
      cross_entropy_gradient(make_running_score(parts_.on.device), logits.detach().contiguous(),
                             batch_.targets.reshape({-1}).contiguous(), batch_.inputs.size(0),
                             config_.train.label_smoothing, /*weight=*/1, /*loss_scale=*/{}));
  if (store != nullptr) store->end_pass();
  std::vector<at::Tensor> parts;
  for (const ParameterRef& parameter : parameters) {
    const at::Tensor gradient = std::exchange(parameter.tensor.mutable_grad(), at::Tensor());
    if (gradient.defined()) parts.push_back(gradient.reshape({-1}).to(at::kDouble));
  }
  return at::cat(parts);
}

GradientQuality GradientJudge::judge(const SavedSettings& settings, std::int64_t draws) {
  require(draws >= 1, "gradient quality", "offsets must be drawn at least once, got ", draws);
  RunConfig config = config_;
  config.activations = settings.activations;
  SavedStore store(saved_store_options(config), constants_of(parts_.network), parts_.on.device);
  SavedSettings whole_batch = settings;
  whole_batch.samples = config.train.batch;
  const SavedSurvey survey = settings.by_layer ? calibrated(survey_, parts_, whole_batch) : survey_;
  store.follow(survey.census,
               plans_by_entry(survey.census, survey.tensors, plans_of(survey, whole_batch)));
  const double exact_square = squared(exact_);
  at::Tensor sum = at::zeros_like(exact_);
  double squares = 0;
  GradientQuality quality;
  for (std::int64_t i = 0; i < draws; ++i) {
    const at::Tensor compressed = gradient(&store);
    const at::Tensor difference = compressed - exact_;
    sum += difference;
    squares += squared(difference);
    quality.cosine +=
        compressed.dot(exact_).item<double>() / std::sqrt(squared(compressed) * exact_square);
  }
  const SavedCounts counts = store.counts();
  require(counts.mismatches == 0, "gradient quality", counts.mismatches,
          " saved tensors differ from the profiled ones");
  const auto count = static_cast<double>(draws);
  quality.held_ratio = static_cast<double>(counts.fp32_bytes) /
                       static_cast<double>(std::max<std::int64_t>(1, counts.all_held_bytes()));
  quality.cosine /= count;
  quality.error = squares / count / exact_square;
  quality.bias = draws > 1 ? (squared(sum) - squares) / (count * (count - 1)) / exact_square
                           : std::numeric_limits<double>::quiet_NaN();
  return quality;
}

}  // namespace triaccel
