#include "cli/commands/inspect_parts.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/version.h"
#include "triaccel/checkpoint/generations.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/policies/compression/compression_options.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/step_engine.h"
#include "triaccel/trainer/measure/gradient_quality.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Question {
  std::string label;
  SavedSettings settings;
};

std::vector<Question> all_questions(const GradientQuestions& wanted) {
  std::vector<Question> all;
  const auto add = [&](std::string label, const std::string& keep) -> SavedSettings& {
    all.push_back({std::move(label), {.activations = {.keep = keep}}});
    return all.back().settings;
  };
  add("lossless", "lossless");
  for (const std::string_view name : registered_codec_names())
    add(std::string(name), std::string(name));
  for (const double ratio : wanted.ratios)
    for (const bool by_layer : {false, true}) {
      SavedSettings& ours =
          add(fmt::format("compressed {:g}x{}", ratio, by_layer ? ", by layer" : ""), "compressed");
      ours.activations.ratio = ratio;
      ours.activations.rounding = wanted.rounding;
      ours.by_layer = by_layer;
    }
  return all;
}

/// The run at its newest checkpoint.
RunConfig config_at_checkpoint(const fs::path& run, const Generation& newest,
                               const GradientQuestions& wanted) {
  RunConfig config = read_run_config(run);
  config.model.init_from = (newest.path / kWeightsFile).string();
  config.train.batch = wanted.samples;
  config.train.accumulate = 1;
  config.device.budget = {};
  return config;
}

}  // namespace

void inspect_gradients(const fs::path& run, const GradientQuestions& wanted, bool json) {
  const std::vector<Generation> stored = list_generations(run / kCheckpointFolder);
  require(holds_run(run) && !stored.empty(), "inspect --gradients", "'", run.string(),
          "' is not a run with a checkpoint; pass the directory of a run made by 'triaccel train'");
  require(wanted.samples >= 1, "--samples", "must be at least 1, got ", wanted.samples);
  require(wanted.draws >= 1, "--draws", "must be at least 1, got ", wanted.draws);
  for (const double ratio : wanted.ratios)
    require(ratio >= 1 && ratio <= 32, "--ratios", "must lie in [1, 32], got ", ratio);
  const RunConfig config = config_at_checkpoint(run, stored.front(), wanted);
  GradientJudge judge(config);
  const std::string device = device_text(choose_device(config.device.device));
  Json rows = Json::array();
  if (!json)
    fmt::print(
        "{}, step {}: gradient of {} samples of {}, {} random roundings, {}\n\n{:<38} {:>7} "
        "{:>10} {:>10} {:>9}\n",
        printable(run.string()), stored.front().step, wanted.samples, config.data.name,
        wanted.draws, device, "activations", "ratio", "error^2", "bias^2", "cosine");
  for (const Question& question : all_questions(wanted)) {
    const GradientQuality quality = judge.judge(question.settings, wanted.draws);
    if (!json)
      fmt::print("{:<38} {:>7.2f} {:>10.3g} {:>10.2g} {:>9.6f}\n", question.label,
                 quality.held_ratio, quality.error, quality.bias, quality.cosine);
    const bool ours = question.settings.activations.keep == "compressed";
    rows.push_back({{"model", config.model.name},
                    {"activations", question.settings.activations.keep.name()},
                    {"target_ratio", ours ? Json(question.settings.activations.ratio) : Json()},
                    {"by_layer", ours ? Json(question.settings.by_layer) : Json()},
                    {"held_ratio", quality.held_ratio},
                    {"error", quality.error},
                    {"bias", quality.bias},
                    {"cosine", quality.cosine},
                    {"step", stored.front().step},
                    {"samples", wanted.samples},
                    {"draws", wanted.draws},
                    {"device", device},
                    {"commit", build_commit()}});
  }
  if (json) fmt::print("{}\n", dump_line(rows));
}

}  // namespace triaccel::cli
