#include "triaccel/trainer/config/run_config.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/data/load_data.h"
#include "triaccel/formats/bad_data.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/weight_update.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/trainer/config/method.h"
#include "triaccel/trainer/int8/int8_schedule.h"

namespace triaccel {
namespace {

void require_one_of(std::string_view flag, const std::string& value,
                    const std::vector<std::string>& known) {
  require(std::ranges::find(known, value) != known.end(), flag, "unknown value '", value, "'",
          suggestion(value, known));
}

void require_range(std::string_view flag, double value, double low, double high,
                   std::string_view range) {
  require(value >= low && value <= high, flag, "must lie in ", range, ", got ", value);
}

void require_at_least(std::string_view flag, std::int64_t value, std::int64_t least) {
  require(value >= least, flag, "must be at least ", least, ", got ", value);
}

void check_words(const RunConfig& config) {
  require_one_of("--method", config.train.method, method_names());
  require_one_of("--optimizer", config.train.optimizer, {"sgd", "adamw"});
  require_one_of("--optimizer-state", config.train.optimizer_state, {"fp32", "fp8"});
  if (config.model.name != "own") require_one_of("--model", config.model.name, model_names());
  require_one_of("--stem", config.model.stem, {"imagenet", "cifar"});
  require_one_of("--init", config.model.init, {"auto", "torch", "kaiming"});
  require_one_of("--memory-format", config.model.memory_format,
                 {"auto", "contiguous", "channels-last"});
  require_one_of("--data", config.data.name, all_data_names());
  require_one_of("--device", config.device.device, {"auto", "cpu", "cuda"});
  parse_bad_data(config.data.bad_data, "--bad-data");
  require_one_of("--graphs", config.device.graphs, {"auto", "off"});
  parse_budget(config.device.budget, 1 << 20, "--budget");
  require(config.model.init_from.empty() || std::filesystem::exists(config.model.init_from),
          "--init-from", "there is no file '", config.model.init_from, "'");
}

void check_control(const RunConfig::Control& control) {
  require_one_of("--policy", control.policy, {"robust", "paper"});
  require_one_of("--precision", control.precision, {"auto", "off", "fp32", "bf16", "fp16"});
  require_one_of("--curvature", control.curvature, {"fisher_gram", "hessian", "off"});
  require_one_of("--batch-control", control.batch, {"elastic", "micro", "off"});
  require_one_of("--curvature-block", control.curvature_block, {"weight", "layer"});
  require_one_of("--batch-growth", control.batch_growth, {"schedule", "free"});
  require_one_of("--batch-rate", control.batch_rate,
                 {"auto", "none", "linear", "sqrt", "adascale"});
  require(control.replay.empty() || std::filesystem::exists(control.replay), "--replay",
          "there is no file '", control.replay, "'");
  require(control.variance_decay >= 0 && control.variance_decay < 1, "--variance-decay",
          "must lie in [0, 1), got ", control.variance_decay);
  require(control.tau_low >= 0 && control.tau_high >= control.tau_low, "--tau-high",
          "must not lie below --tau-low, got ", control.tau_high, " and ", control.tau_low);
  require_at_least("--dwell", control.dwell, 0);
  require_at_least("--most-changes", control.most_changes, 1);
  require_at_least("--curvature-every", control.curvature_every, 1);
  require_at_least("--curvature-batch", control.curvature_batch, 2);
  require_at_least("--curvature-top", control.curvature_top, 1);
  require_range("--curvature-cap", control.curvature_cap, 0, 1e9, "[0, 1e9]");
  require_range("--alpha", control.alpha, 0, 1e9, "[0, 1e9]");
  require(control.smallest_rate > 0 && control.smallest_rate <= 1, "--smallest-rate",
          "must lie in (0, 1], got ", control.smallest_rate);
  require(control.rho_low > 0 && control.rho_low < control.rho_high && control.rho_high <= 1,
          "--rho-high", "need 0 < rho-low < rho-high <= 1, got ", control.rho_low, " and ",
          control.rho_high);
  require_at_least("--batch-up", control.batch_up, 1);
  require_at_least("--batch-down", control.batch_down, 1);
  require_at_least("--smallest-batch", control.smallest_batch, 0);
  require_at_least("--largest-batch", control.largest_batch, 0);
  require(control.largest_batch == 0 || control.largest_batch >= control.smallest_batch,
          "--largest-batch", "must not lie below --smallest-batch, got ", control.largest_batch,
          " and ", control.smallest_batch);
  require_range("--noise-share", control.noise_share, 0, 1e9, "[0, 1e9]");
}

/// A batch that grows and shrinks begins between its bounds. Passes of a fixed batch may be
/// smaller.
void check_first_batch(const RunConfig& config) {
  const RunConfig::Control& control = config.control;
  const std::int64_t first = config.train.batch * config.train.accumulate;
  if (config.train.method != "triaccel" || control.batch != "elastic") return;
  require(control.largest_batch == 0 || control.largest_batch >= first, "--largest-batch",
          "must not lie below the first batch, got ", control.largest_batch, " and ", first,
          "; lower --batch, or leave the bound out");
}

/// What only the control loop can do is refused where there is none, not ignored. Its numbers may
/// stand, and anything may where every mechanism is switched off by name.
void check_method(const RunConfig& config) {
  const RunConfig::Control& control = config.control;
  const std::string& method = config.train.method;
  if (method == "triaccel") return;
  if (control.precision == "off" && control.curvature == "off" && control.batch == "off") return;
  const auto refuse = [&](std::string_view flag, const std::string& value, bool allowed) {
    require(allowed, flag, "'", value, "' is the control loop's, and method '", method,
            "' has none; add --method triaccel");
  };
  const std::string& precision = control.precision;
  refuse("--precision", precision,
         precision == "auto" || precision == "off" || precision == method);
  refuse("--policy", control.policy, control.policy != "paper");
  refuse("--curvature", control.curvature, control.curvature != "hessian");
  refuse("--batch-control", control.batch, control.batch != "micro");
  refuse("--replay", control.replay, control.replay.empty());
  refuse("--prefer-fp16", "true", !control.prefer_fp16);
}

void check_activations(const RunConfig& config) {
  const RunConfig::Activations& activations = config.activations;
  std::vector<std::string> modes = {"raw", "lossless", "coded", "bounded"};
  for (const std::string_view codec : registered_codec_names()) modes.emplace_back(codec);
  require(std::ranges::find(modes, activations.keep) != modes.end(), "--activations",
          "unknown value '", activations.keep, "'", suggestion(activations.keep, modes),
          "; the codecs of other systems are in the program triaccel_baselines of bench/papers");
  require_one_of("--activation-rounding", activations.rounding,
                 {"dither", "stochastic", "nearest"});
  require_one_of("--activation-prediction", activations.prediction, {"off", "auto"});
  require(activations.prediction == "off" || activations.rounding == "dither",
          "--activation-prediction", "differences are coded with dither alone, got ",
          "--activation-rounding ", activations.rounding);
  require_range("--activation-ratio", activations.ratio, 1, 32, "[1, 32]");
  require_range("--activation-least-ratio", activations.least_ratio, 1, activations.ratio,
                "[1, --activation-ratio]");
  require(activations.error_bound > 0 && activations.error_bound <= 1, "--activation-error",
          "must lie in (0, 1], got ", activations.error_bound);
  require_at_least("--activation-look-every", activations.look_every, 1);
  require(!activations.recompute_norms || config.train.method == "triaccel", "--recompute-norms",
          "method '", config.train.method, "' leaves norms to libtorch; add --method triaccel");
  require(
      !activations.recompute_norms || activations.keep == "raw" || activations.keep == "lossless",
      "--recompute-norms", "needs what norms read as it was, and --activations ", activations.keep,
      " changes it; there outputs of norms are rebuilt anyway");
  require(activations.keep == "raw" || (!trains_by_losses(config) && !trains_in_integers(config)),
          "--activations", "'", activations.keep, "' is for backpropagation, and method '",
          config.train.method, "' saves little or nothing; leave it raw");
}

void check_zeroth_order(const RunConfig& config) {
  const RunConfig::ZerothOrder& zeroth = config.zeroth_order;
  require_range("--zo-lr", zeroth.lr, 0, 1e9, "[0, 1e9]");
  require(zeroth.decay > 0 && zeroth.decay <= 1, "--zo-decay", "must lie in (0, 1], got ",
          zeroth.decay);
  require(zeroth.decay_epochs > 0, "--zo-decay-epochs", "must be positive, got ",
          zeroth.decay_epochs);
  require(zeroth.epsilon > 0 && zeroth.epsilon <= 10, "--zo-epsilon", "must lie in (0, 10], got ",
          zeroth.epsilon);
  require(zeroth.directions >= 1 && zeroth.directions <= 256, "--zo-directions",
          "must lie in [1, 256], got ", zeroth.directions);
  require_range("--zo-clip", zeroth.clip, 0, 1e9, "[0, 1e9]");
  require(zeroth.momentum >= 0 && zeroth.momentum < 1, "--zo-momentum", "must lie in [0, 1), got ",
          zeroth.momentum);
  require(zeroth.momentum_steps >= 1 && zeroth.momentum_steps <= 64, "--zo-momentum-steps",
          "must lie in [1, 64], got ", zeroth.momentum_steps);
  const bool integers = trains_in_integers(config);
  const bool elastic = config.train.method == "elasticzo" || integers;
  require(elastic || zeroth.bp_layers < 0, "--bp-layers",
          "only methods 'elasticzo' and 'elasticzo-int8' have a boundary, not '",
          config.train.method, "'");
  require(elastic || !zeroth.freeze, "--freeze-head",
          "only methods 'elasticzo' and 'elasticzo-int8' have a boundary, not '",
          config.train.method, "'");
  require(config.train.method == "elasticzo" || !zeroth.move_boundary, "--move-boundary",
          "only method 'elasticzo' has a boundary, not '", config.train.method, "'");
}

void check_numbers(const RunConfig& config) {
  constexpr double largest = 1e9;
  const RunConfig::Train& train = config.train;
  require(train.epochs > 0 && train.epochs <= 1e6, "--epochs", "must lie in (0, 1e6], got ",
          train.epochs);
  require_at_least("--steps", train.steps, 0);
  require_at_least("--batch", train.batch, 0);
  require_at_least("--accumulate", train.accumulate, 1);
  require(train.batch <= 1 << 24 && train.accumulate <= 1 << 20, "--batch", "no machine trains ",
          train.batch, " x ", train.accumulate, " samples a step");
  require_range("--lr", train.lr, 0, largest, "[0, 1e9]");
  require(train.momentum >= 0 && train.momentum < 1, "--momentum", "must lie in [0, 1), got ",
          train.momentum);
  require_range("--weight-decay", train.weight_decay, -largest, largest, "[0, 1e9]");
  require_range("--warmup-epochs", train.warmup_epochs, -largest, largest, "[0, 1e9]");
  require(train.label_smoothing >= 0 && train.label_smoothing < 1, "--label-smoothing",
          "must lie in [0, 1), got ", train.label_smoothing);
  require_range("--clip", train.clip, 0, largest, "[0, 1e9]");
  require(train.ema >= 0 && train.ema < 1, "--ema", "must lie in [0, 1), got ", train.ema);
  require_at_least("--patience", train.patience, 0);
  require_at_least("--control-interval", train.control_interval, 1);
  require_at_least("--seed", train.seed, 0);
  require_at_least("--width", config.model.width, 0);
  require_at_least("--train-samples", config.data.train_samples, 0);
  require_at_least("--val-split", config.data.val_split, 0);
  require_at_least("--image-size", config.data.image_size, 0);
  require_at_least("--context-length", config.data.context_length, 2);
  require(config.device.threads >= 0 && config.device.threads <= 4096, "--threads",
          "must lie in [0, 4096], got ", config.device.threads);
  require_at_least("--checkpoint-every", config.run.checkpoint_every, 0);
  require(config.run.keep >= 1 && config.run.keep <= 1000, "--keep", "must lie in [1, 1000], got ",
          config.run.keep);
  require_range("--watchdog-seconds", config.run.watchdog_seconds, 0, largest, "[0, 1e9]");
}

/// Networks take images, points or text; the data set must give what the network takes.
void check_fit(const RunConfig& config) {
  const std::string& model = config.model.name;
  const std::string& data = config.data.name;
  const auto kind_of_data = [&]() -> std::string_view {
    if (data == "text") return "text";
    return data == "modelnet40" ? "points" : "images";
  };
  const auto kind_of_model = [&]() -> std::string_view {
    if (model == "gpt-small") return "text";
    return model.starts_with("pointnet") ? "points" : "images";
  };
  require(model == "own" || kind_of_data() == kind_of_model(), "--model", "'", model, "' takes ",
          kind_of_model(), ", but the data set '", data, "' holds ", kind_of_data());
  require(config.data.image_size == 0 || kind_of_data() == "images", "--image-size",
          "the data set '", data, "' holds no images");
  require(config.data.rotation == 0 || kind_of_data() == "images", "--rotate", "the data set '",
          data, "' holds no images");
}

/// What integers cannot do is refused, not ignored.
void check_int8(const RunConfig& config) {
  const RunConfig::Int8& integers = config.int8;
  require_one_of("--int8-conventions", integers.conventions, {"sample", "paper"});
  require_at_least("--int8-micro-batch", integers.micro_batch, 0);
  require(integers.reach <= int8::kMostReach, "--int8-reach", "must be at most ", int8::kMostReach,
          ", got ", integers.reach);
  int8_schedule(integers.rate_exponent, {}, {0, int8::kMostRateExponent}, "--int8-rate");
  int8_schedule(integers.gradient_bits, {}, {1, 7}, "--int8-bits");
  if (!trains_in_integers(config)) return;
  const auto refuse = [&](std::string_view flag, bool allowed) {
    require(allowed, flag, "method 'elasticzo-int8' trains in integers and has no such thing");
  };
  refuse("--budget", config.device.budget == "none");
  refuse("--label-smoothing", config.train.label_smoothing == 0);
  refuse("--clip", config.train.clip == 0);
  refuse("--ema", config.train.ema == 0);
  refuse("--optimizer-state", config.train.optimizer_state == "fp32");
  refuse("--zo-directions", config.zeroth_order.directions == 1);
  refuse("--zo-one-sided", !config.zeroth_order.one_sided);
  refuse("--zo-momentum", config.zeroth_order.momentum == 0);
}

}  // namespace

bool trains_by_losses(const RunConfig& config) {
  return config.train.method == "zo" || config.train.method == "elasticzo";
}

bool augments(const RunConfig& config) {
  return config.data.augment && (!trains_by_losses(config) || config.zeroth_order.augment);
}

bool trains_in_integers(const RunConfig& config) { return config.train.method == "elasticzo-int8"; }

RunConfig resolved(RunConfig config) {
  check_words(config);
  check_control(config.control);
  check_method(config);
  check_numbers(config);
  check_zeroth_order(config);
  check_activations(config);
  check_fit(config);
  check_int8(config);
  const bool sgd = config.train.optimizer == "sgd";
  const bool elastic = config.train.method == "elasticzo";
  const bool integers = trains_in_integers(config);
  if (config.train.batch == 0) config.train.batch = trains_by_losses(config) || integers ? 32 : 96;
  check_first_batch(config);
  if (config.train.lr == 0) config.train.lr = sgd ? (elastic ? 0.01 : 0.05) : 1e-3;
  if (config.model.init == "auto")
    config.model.init = trains_by_losses(config) ? "kaiming" : "torch";
  if (config.zeroth_order.lr == 0) config.zeroth_order.lr = elastic ? 2e-5 : 6e-5;
  if (config.train.weight_decay < 0) config.train.weight_decay = sgd ? 5e-4 : 0.05;
  if (config.train.warmup_epochs < 0 && config.train.steps == 0)
    config.train.warmup_epochs = std::min(5.0, config.train.epochs / 6);
  if (config.run.name.empty())
    config.run.name = config.model.name + "-" + config.data.name + "-" + config.train.method;
  return config;
}

RunConfig with_method(RunConfig config, const std::string& method) {
  config.train.method = method;
  if (method != "triaccel")
    config.control.precision = config.control.curvature = config.control.batch = "off";
  return config;
}

}  // namespace triaccel
