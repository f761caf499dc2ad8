#include "triaccel/trainer/config/run_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "triaccel/data/load_data.h"
#include "triaccel/data/own_data.h"
#include "triaccel/int8_run/steps.h"
#include "triaccel/trainer/config/options.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// Ranges and names as declared, and no option that the method must not ignore.
void check_options_one_by_one(const RunConfig& config) {
  const RunConfig::Control& control = config.control;
  // A comparison switches every mechanism off by name; the rest of the control loop may stand.
  const bool compares = control.precision == LayerPrecision::Off &&
                        control.curvature == CurvatureSource::Off &&
                        control.batch == BatchMode::Off;
  for (const Option& option : all_options()) {
    const bool own_network = option.flag == "--model" && config.model.name == "own";
    const std::string problem = own_network ? "" : option.problem_with(option.get(config));
    require(problem.empty(), option.flag, problem);
    if (!compares || option.table != "control") option.require_effect(config, option.strict);
  }
}

void require_file(std::string_view flag, const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::exists(path, error)) return;
  const bool missing = !error || error == std::errc::no_such_file_or_directory;
  throw UsageError(text("[", flag, "] ",
                        missing ? text("there is no file '", path, "'")
                                : text("cannot read '", path, "': ", error.message())));
}

void check_paths(const RunConfig& config) {
  constexpr std::size_t longest = 200;  // bytes; a number or a suffix must still fit into 255
  require_file("--init-from", config.model.init_from);
  require_file("--replay", config.control.replay);
  if (is_own_data(config.data.name)) {
    std::error_code error;
    require(fs::exists(config.data.name, error), "--data", "no file or folder has this name; ",
            not_one_of(config.data.name, all_data_names()));
    require(config.data.root.empty(), "--data-root",
            "is for built-in data sets; --data names the path of your own");
  }
  const std::string& name = config.run.name;
  // Without --out the name is a folder's.
  require(!config.run.out.empty() ||
              (name != "." && name != ".." && name.find('/') == std::string::npos),
          "--name", "must be the name of a folder below runs/, got '", name,
          "'; --out takes a path");
  require(name.size() <= longest, "--name", "must have at most ", longest, " bytes, got ",
          name.size());
  for (const fs::path& part : fs::path(config.run.out))
    require(part.native().size() <= longest, "--out", "names of folders have at most ", longest,
            " bytes, got one of ", part.native().size());
}

/// What depends on two options.
void check_pairs(const RunConfig& config) {
  const RunConfig::Control& control = config.control;
  const PrecisionOptions& precision = control.precision_rules;
  const BatchOptions& batch = control.batch_rules;
  const RunConfig::Activations& activations = config.activations;
  require(has_moments(config.train.optimizer) || config.train.optimizer_state == StateFormat::Fp32,
          "--optimizer-state", "only sgd and adamw have such a state; omit it for ",
          config.train.optimizer, ", whose state is small");
  require(precision.tau_low <= precision.tau_high, "--tau-high",
          "must not lie below --tau-low, got ", precision.tau_high, " and ", precision.tau_low);
  require(batch.rho_low < batch.rho_high, "--rho-high", "must lie above --rho-low, got ",
          batch.rho_high, " and ", batch.rho_low);
  require(batch.largest == 0 || batch.largest >= batch.smallest, "--largest-batch",
          "must not lie below --smallest-batch, got ", batch.largest, " and ", batch.smallest);
  require(!config.train.deterministic || control.kernels != "measured", "--kernels",
          "'measured' may choose other kernels in every run; omit it or --deterministic");
  require(activations.least_ratio <= activations.first_ratio(), "--activation-least-ratio",
          "must not lie above --activation-ratio, got ", activations.least_ratio, " and ",
          activations.first_ratio());
  require(!activations.recompute_norms || activations.keep.saves_exactly(), "--recompute-norms",
          "requires exact batch-norm inputs, and --activations ", activations.keep,
          " changes them; omit --recompute-norms, outputs are recomputed in that mode anyway");
  require(activations.recompute_segments == 0 || activations.keep == "raw", "--recompute-segments",
          "requires --activations raw, got ", activations.keep, "; omit one of the two");
  check_int8_schedules(config.int8.rate_exponent, config.int8.gradient_bits);
}

/// A batch that grows and shrinks begins between its bounds. Passes of a fixed batch may be
/// smaller.
void check_first_batch(const RunConfig& config) {
  const std::int64_t first = config.train.batch * config.train.accumulate;
  const std::int64_t largest = config.control.batch_rules.largest;
  if (!has_control_loop(config) || config.control.batch != BatchMode::Elastic) return;
  require(largest == 0 || largest >= first, "--largest-batch",
          "must not lie below the first batch, got ", largest, " and ", first,
          "; lower --batch or omit --largest-batch");
}

/// Networks take images, points or text; the data set must give what the network takes.
void check_fit(const RunConfig& config) {
  const std::string& model = config.model.name;
  const std::string& data = config.data.name;
  const std::string_view held = takes_images(config) ? "images"
                                : data == "text"     ? "text"
                                                     : "points";
  const std::string_view taken = model == "gpt-small"            ? "text"
                                 : model.starts_with("pointnet") ? "points"
                                                                 : "images";
  require(model == "own" || held == taken, "--model", "'", model, "' takes ", taken,
          ", but the data set '", data, "' holds ", held);
}

double default_learning_rate(const RunConfig& config) {
  const OptimizerKind optimizer = config.train.optimizer;
  if (optimizer == OptimizerKind::Sgd)
    return config.train.method == TrainMethod::ElasticZo ? 0.01 : 0.05;
  const bool compact =
      optimizer == OptimizerKind::AdaLomo || optimizer == OptimizerKind::ApolloMini;
  return compact ? 0.01 : 1e-3;
}

double default_weight_decay(OptimizerKind optimizer) {
  if (optimizer == OptimizerKind::AdaLomo) return 0;
  return optimizer == OptimizerKind::Sgd ? 5e-4 : 0.05;
}

/// Gives options that the user left open the values that follow from others.
void fill_in(RunConfig& config) {
  const bool elastic = config.train.method == TrainMethod::ElasticZo;
  if (config.train.batch == 0) config.train.batch = estimates_losses(config) ? 32 : 96;
  if (config.train.lr == 0) config.train.lr = default_learning_rate(config);
  if (config.model.init == WeightInit::Auto)
    config.model.init = uses_zeroth_order(config) ? WeightInit::Kaiming : WeightInit::Torch;
  if (config.zeroth_order.lr == 0) config.zeroth_order.lr = elastic ? 2e-5 : 6e-5;
  if (config.train.weight_decay < 0)
    config.train.weight_decay = default_weight_decay(config.train.optimizer);
  if (config.train.warmup_epochs < 0 && config.train.steps == 0)
    config.train.warmup_epochs = std::min(5.0, config.train.epochs / 6);
  if (config.run.name.empty())
    config.run.name =
        text(config.model.name, "-", data_title(config.data.name), "-", config.train.method);
}

}  // namespace

bool uses_zeroth_order(const RunConfig& config) {
  return config.train.method == TrainMethod::Zo || config.train.method == TrainMethod::ElasticZo;
}

bool augments(const RunConfig& config) {
  return config.data.augment && (!uses_zeroth_order(config) || config.zeroth_order.augment);
}

BadDataRule bad_data_rule(const RunConfig& config) {
  const bool own = is_own_data(config.data.name);
  const double most = own ? 0.01 : 0.001;
  switch (BadDataMode(config.data.bad_data)) {
    case BadDataMode::Auto:
      return {own ? BadData::Skip : BadData::Fail, most};
    case BadDataMode::Fail:
      return {BadData::Fail, most};
    case BadDataMode::Skip:
      return {BadData::Skip, most};
    case BadDataMode::Report:
      break;
  }
  return {BadData::Report, most};
}

bool trains_in_integers(const RunConfig& config) {
  return config.train.method == TrainMethod::ElasticZoInt8;
}

RunConfig resolved(RunConfig config) {
  check_options_one_by_one(config);
  check_pairs(config);
  check_paths(config);
  check_fit(config);
  fill_in(config);
  check_first_batch(config);
  return config;
}

RunConfig with_open_options(RunConfig config) {
  const auto leave_open = [defaults = RunConfig()](const Option& option, RunConfig& in) {
    option.assign(in, option.get(defaults));
  };
  RunConfig filled = config;
  for (const Option& option : all_options())
    if (option.is_filled_in) leave_open(option, filled);
  fill_in(filled);
  for (const Option& option : all_options())
    if (option.is_filled_in && option.get(config) == option.get(filled)) leave_open(option, config);
  return config;
}

RunConfig with_method(RunConfig config, Choice<TrainMethod> method) {
  config.train.method = method;
  if (method != TrainMethod::Triaccel) {
    config.control.precision = LayerPrecision::Off;
    config.control.curvature = CurvatureSource::Off;
    config.control.batch = BatchMode::Off;
  }
  return config;
}

RunExtent extent_of(const RunConfig& config) {
  return {.epochs = config.train.epochs,
          .steps = config.train.steps,
          .batch = config.train.batch * config.train.accumulate};
}

LearningRateSchedule schedule_of(const RunConfig& config, std::int64_t samples_per_epoch) {
  const std::int64_t total = samples_in_run(extent_of(config), samples_per_epoch);
  const double asked_for = config.train.warmup_epochs;
  const std::int64_t warmup =
      asked_for < 0 ? std::min(5 * samples_per_epoch, (total + 5) / 6)
                    : std::llround(asked_for * static_cast<double>(samples_per_epoch));
  return {.peak = config.train.lr, .warmup_samples = warmup, .total_samples = total};
}

double zeroth_order_rate_at(const RunConfig& config, double epoch) {
  const RunConfig::ZerothOrder& zeroth = config.zeroth_order;
  return zeroth.lr * std::pow(zeroth.decay, std::floor(epoch / zeroth.decay_epochs));
}

}  // namespace triaccel
