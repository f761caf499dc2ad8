#include "cli/reproduce/rate_grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/stop_signals.h"
#include "cli/stored_run.h"
#include "triaccel/base/error.h"
#include "triaccel/checkpoint/run_lock.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/config/config_text.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct GridPoint {
  double rate = 0;
  double decay = 0;
  double accuracy = std::nan("");  // per cent; NaN: diverged
};

struct GridChoice {
  std::string group = {};
  std::string config = {};  // hash of what all its runs have in common
  double rate = 0;
  double decay = 0;
  std::vector<GridPoint> points = {};
};

GridChoice choice_from(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  GridChoice choice;
  fields.read("group", choice.group);
  fields.read("config", choice.config);
  fields.read("lr", choice.rate);
  fields.read("weight_decay", choice.decay);
  for (const nlohmann::json& point : fields.array("points")) {
    const JsonFields values(point, where);
    GridPoint& added = choice.points.emplace_back();
    values.read("lr", added.rate);
    values.read("weight_decay", added.decay);
    values.read("accuracy", added.accuracy);
  }
  return choice;
}

std::vector<GridChoice> read_choices(const fs::path& file) {
  if (!fs::exists(file)) return {};
  constexpr std::int64_t most = 1 << 20;
  const nlohmann::json parsed = nlohmann::json::parse(read_text_file(file, most), nullptr,
                                                      /*allow_exceptions=*/false);
  if (!parsed.is_array())
    throw StorageError(text(file.string(), ": this is no JSON list; is the file damaged?"));
  std::vector<GridChoice> choices;
  for (const nlohmann::json& json : parsed) choices.push_back(choice_from(json, file.string()));
  return choices;
}

std::string choices_json(const std::vector<GridChoice>& choices) {
  std::string out = "[";
  for (const GridChoice& choice : choices) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    for (const GridPoint& point : choice.points)
      points.push_back({{"lr", point.rate},
                        {"weight_decay", point.decay},
                        {"accuracy", point.accuracy}});  // NaN is written as null
    const nlohmann::ordered_json json = {{"group", choice.group},
                                         {"config", choice.config},
                                         {"lr", choice.rate},
                                         {"weight_decay", choice.decay},
                                         {"points", points}};
    out += (out.size() > 1 ? ",\n " : "\n ") + dump_line(json);
  }
  return out + "\n]\n";
}

/// The folder's lock, as soon as other processes let go of it.
RunLock wait_for(const fs::path& folder) {
  for (bool told = false;; told = true) {
    try {
      return RunLock(folder);
    } catch (const RunLocked&) {
      if (!told) fmt::print(stderr, "{}: another process works here; waiting\n", folder.string());
    }
    if (stop_signal() != 0) throw Interrupted{128 + stop_signal()};
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

bool covers(const GridChoice& choice, const RateGrid& grid) {
  return choice.points.size() == grid.rates.size() * grid.decays.size() &&
         std::ranges::all_of(choice.points, [&](const GridPoint& point) {
           return std::ranges::find(grid.rates, point.rate) != grid.rates.end() &&
                  std::ranges::find(grid.decays, point.decay) != grid.decays.end();
         });
}

std::optional<GridChoice> known_choice(const std::string& group, const std::string& config,
                                       const RateGrid& grid) {
  for (GridChoice& choice : read_choices(grid.out / kGridFile))
    if (choice.group == group && choice.config == config && covers(choice, grid))
      return std::move(choice);
  return std::nullopt;
}

void record(const GridChoice& choice, const fs::path& out) {
  const RunLock lock = wait_for(out / "grid");
  std::vector<GridChoice> choices = read_choices(out / kGridFile);
  std::erase_if(choices, [&](const GridChoice& other) { return other.group == choice.group; });
  choices.push_back(choice);
  write_atomically(out / kGridFile, choices_json(choices));
}

/// What every run of a grid shares: one seed, whichever rows ask, and held-out training samples.
RunConfig trial_config(const RunConfig& config, const RateGrid& grid) {
  constexpr std::int64_t held_out = 5000;
  RunConfig trial = of_length(config, grid.epochs);
  trial.train.seed = 1;
  trial.train.lr = 0;
  trial.train.weight_decay = 0;
  const std::int64_t samples = trial.data.train_samples;
  trial.data.val_split = samples > 0 ? std::min(held_out, samples / 6) : held_out;
  return trial;
}

double accuracy_of(const fs::path& folder, const RunConfig& trial, RunConsole& console) {
  try {
    // Rows of other seeds have slightly other budgets; a grid is run under the first one's.
    return run_in(folder, trial, console, {"device.budget"}).best_accuracy;
  } catch (const NumericalFailure& failure) {
    fmt::print(stderr, "{}: {}\n", folder.string(), failure.what());
    return std::nan("");
  }
}

GridChoice choose(GridChoice choice, const RunConfig& common, const RateGrid& grid,
                  RunConsole& console) {
  double best = -1;
  for (const double rate : grid.rates)
    for (const double decay : grid.decays) {
      RunConfig trial = common;
      trial.train.lr = rate;
      trial.train.weight_decay = decay;
      const fs::path folder =
          grid.out / "grid" / choice.group / fmt::format("lr{}-wd{}", rate, decay);
      const double accuracy = accuracy_of(folder, trial, console);
      choice.points.push_back({rate, decay, accuracy});
      if (!(accuracy > best)) continue;
      best = accuracy;
      choice.rate = rate;
      choice.decay = decay;
    }
  if (best < 0)
    throw NumericalFailure(text("[--rates] ", choice.group,
                                ": no learning rate of the grid trains; give smaller ones"));
  return choice;
}

}  // namespace

RunConfig of_length(RunConfig config, double epochs) {
  if (config.train.warmup_epochs > 0) config.train.warmup_epochs *= epochs / config.train.epochs;
  config.train.epochs = epochs;
  return config;
}

RunConfig tuned(RunConfig config, const std::string& group, const RateGrid& grid,
                RunConsole& console) {
  config.train.lr = grid.rates.front();
  config.train.weight_decay = grid.decays.front();
  if (grid.rates.size() * grid.decays.size() == 1) return config;
  const RunConfig common = trial_config(config, grid);
  const std::string hash = fmt::format("{:016x}", config_hash(common));
  std::optional<GridChoice> choice = known_choice(group, hash, grid);
  if (!choice) {
    const RunLock lock = wait_for(grid.out / "grid" / group);
    choice = known_choice(group, hash, grid);  // made while this process waited
    if (!choice) {
      choice = choose({.group = group, .config = hash}, common, grid, console);
      record(*choice, grid.out);
    }
  }
  config.train.lr = choice->rate;
  config.train.weight_decay = choice->decay;
  return config;
}

}  // namespace triaccel::cli
