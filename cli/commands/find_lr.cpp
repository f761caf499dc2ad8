#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/exit_codes.h"
#include "cli/stop_signals.h"
#include "triaccel/base/error.h"
#include "triaccel/device/first_product.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

struct FindArguments {
  std::unique_ptr<ConfigOptions> options;
  std::vector<double> rates = {};
  std::int64_t trial_steps = 500;
  bool json = false;
};

/// Records the loss of every interval of a trial.
struct Losses : Sink {
  std::vector<double> all;
  void interval(const StepReport& report, const StepPlan&) override { all.push_back(report.loss); }

  /// Mean over the first or last fifth of the intervals.
  double mean(bool last) const {
    const std::size_t count = std::max<std::size_t>(1, all.size() / 5);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += all[last ? all.size() - 1 - i : i];
    return sum / static_cast<double>(count);
  }
};

struct Trial {
  double rate = 0;
  double first_loss = 0;
  double last_loss = NAN;  // NaN: diverged
};

const char* flag_of(const RunConfig& config) {
  return uses_zeroth_order(config) ? "--zo-lr" : "--lr";
}

/// Every trial starts from the same weights and samples, and has its rate from the first step on.
Trial try_rate(RunConfig config, double rate, std::int64_t steps) {
  config.train.warmup_epochs = 0;
  config.train.steps = 0;
  config.train.epochs = std::max(config.train.epochs, static_cast<double>(steps));
  (uses_zeroth_order(config) ? config.zeroth_order.lr : config.train.lr) = rate;
  config.train.control_interval = std::max<std::int64_t>(1, steps / 40);
  Losses losses;
  std::int64_t asked = 0;
  TrainingHooks hooks{.sinks = {&losses},
                      .stop_requested = [&] { return stop_signal() != 0 || ++asked >= steps; }};
  Trial trial{.rate = rate};
  try {
    TrainingLoop(config, *make_engine(config), hooks, nullptr).run();
    trial.last_loss = losses.mean(/*last=*/true);
  } catch (const NumericalFailure&) {
  }
  if (!losses.all.empty()) trial.first_loss = losses.mean(/*last=*/false);
  return trial;
}

std::vector<double> usual_rates(const RunConfig& config) {
  std::vector<double> rates;
  for (double rate = uses_zeroth_order(config) ? 2e-6 : 1e-3; rates.size() < 7;
       rate *= std::sqrt(10.0))
    rates.push_back(rate);
  return rates;
}

std::string verdict(const Trial& trial) {
  if (std::isnan(trial.last_loss)) return "diverged";
  if (trial.last_loss > trial.first_loss) return "rises";
  return "falls";
}

int find_command(const FindArguments& arguments) {
  require(arguments.trial_steps >= 10, "--trial-steps", "must be at least 10, got ",
          arguments.trial_steps);
  const RunConfig config = arguments.options->config({}, Runs::One);
  require(!trains_in_integers(config), "--method",
          "'elasticzo-int8' has steps of powers of two, no learning rate to find");
  for (const double rate : arguments.rates)
    require(std::isfinite(rate) && rate > 0, "--rates", "must be positive numbers, got ", rate);
  check_first_product(/*always=*/false);
  watch_stop_signals();
  std::optional<Trial> best;
  Json trials = Json::array();
  if (!arguments.json)
    fmt::print("{} on {}, {}: {} steps from the same weights\n{:>12}  {:>10}  {:>10}\n",
               config.model.name, config.data.name, config.train.method.name(),
               arguments.trial_steps, flag_of(config), "first loss", "last loss");
  for (const double rate : arguments.rates.empty() ? usual_rates(config) : arguments.rates) {
    const Trial trial = try_rate(config, rate, arguments.trial_steps);
    if (stop_signal() != 0) break;
    trials.push_back({{"learning_rate", rate},
                      {"first_loss", trial.first_loss},
                      {"last_loss", trial.last_loss},
                      {"verdict", verdict(trial)}});
    if (!arguments.json)
      fmt::print("{:>12.2e}  {:>10.4f}  {:>10.4f}  {}\n", trial.rate, trial.first_loss,
                 trial.last_loss, verdict(trial));
    if (verdict(trial) == "falls" && (!best || trial.last_loss < best->last_loss)) best = trial;
  }
  if (stop_signal() != 0) best.reset();
  // The fastest initial decrease is too large later: noise grows with the learning rate.
  const double suggested = best ? best->rate / (uses_zeroth_order(config) ? 3 : 1) : NAN;
  if (arguments.json)
    fmt::print("{}\n", dump_line({{"model", config.model.name},
                                  {"data", config.data.name},
                                  {"method", config.train.method.name()},
                                  {"option", flag_of(config)},
                                  {"trial_steps", arguments.trial_steps},
                                  {"trials", trials},
                                  {"suggested", suggested}}));
  else if (best)
    fmt::print("suggested: {} {:.1e}\n", flag_of(config), suggested);
  else if (stop_signal() == 0)
    fmt::print(
        "the loss does not decrease at any learning rate; try smaller --rates or more "
        "--trial-steps\n");
  return stop_signal() != 0 ? 128 + stop_signal() : kOk;
}

}  // namespace

void add_find_lr(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("find-lr", "Try learning rates for a few steps each and suggest one");
  auto arguments = std::make_shared<FindArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command
      ->add_option("--rates", arguments->rates,
                   "learning rates to try (default: seven, each about 3 times the one before)")
      ->delimiter(',');
  command
      ->add_option("--trial-steps", arguments->trial_steps,
                   "steps to train with each learning rate")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &exit_code] { exit_code = find_command(*arguments); });
}

}  // namespace triaccel::cli
