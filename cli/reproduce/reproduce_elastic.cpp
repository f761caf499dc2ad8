#include "cli/reproduce/reproduce_elastic.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cli/config_options.h"
#include "cli/reproduce/elastic_reproduction.h"
#include "cli/reproduce/make_rows.h"
#include "cli/reproduce/row_failures.h"
#include "cli/run_console.h"
#include "cli/stored_run.h"
#include "triaccel/base/error.h"
#include "triaccel/checkpoint/generations.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/tables/elastic_table.h"
#include "triaccel/telemetry/tables/table_rows.h"
#include "triaccel/trainer/int8/int8_engine.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDivergedFile = "diverged.txt";  // of a trial that need not be tried again

struct ElasticArguments {
  std::unique_ptr<ConfigOptions> options;
  ElasticReproduction wanted;
  bool no_tuning = false;
};

class ElasticTable {
 public:
  explicit ElasticTable(const ElasticReproduction& wanted)
      : wanted_(wanted), console_(/*quiet=*/false) {
    rows_ = read_elastic_rows(wanted.out / kResultFile);
  }

  /// Makes a row. One that fails is reported and left out; the user's mistake ends the command.
  void make(const ElasticPlan& plan) {
    if (made_elsewhere(plan)) return;
    failures_.guard(plan.name(), [&] { add(plan); });
  }

  /// The table of what there is; answers with the exit code of the first row that failed.
  int finish() {
    if (wanted_.trial > 0) return failures_.exit_code();
    write_elastic_files(wanted_.out, rows_);
    fmt::print("\n{}\nfiles: {}\n", elastic_text(rows_), wanted_.out.string());
    return failures_.exit_code();
  }

 private:
  fs::path folder_of(const std::string& name) const { return wanted_.out / "runs" / name; }

  /// What fine-tuning starts from may be another command's, with choices of its own.
  bool made_elsewhere(const ElasticPlan& plan) const {
    const bool asked_for = std::ranges::find(wanted_.methods, "bp") != wanted_.methods.end();
    return plan.row.method == "bp" && plan.row.rotation == 0 && !asked_for &&
           is_finished(folder_of(plan.name()));
  }

  /// The weights a finished run ended with.
  fs::path weights_of(const std::string& name, bool int8) const {
    if (int8) return folder_of(name) / kInt8WeightsFile;
    const auto stored = list_generations(folder_of(name) / kCheckpointFolder);
    if (stored.empty())
      throw std::runtime_error("it starts from the weights of " + name + ", which has none");
    return stored.front().path / "weights.safetensors";
  }

  /// Accuracy of candidate number `i` on held-out samples; not a number where it does not train.
  double tried(const ElasticPlan& plan, std::size_t i, const RunConfig& candidate) {
    const fs::path folder = wanted_.out / "grid" / plan.group() / fmt::format("{}", i + 1);
    const RunConfig trial = elastic_trial(candidate, wanted_);
    if (fs::exists(folder / kDivergedFile)) {
      require_same_run(folder, trial);
      return std::nan("");
    }
    try {
      return run_in(folder, trial, console_).best_accuracy;
    } catch (const NumericalFailure& failure) {
      fmt::print(stderr, "{}: {}\n", folder.string(), failure.what());
      write_atomically(folder / kDivergedFile, text(failure.what(), '\n'));
      return std::nan("");
    }
  }

  /// The candidate that does best on held-out samples; the first where there is no choice.
  RunConfig chosen(const ElasticPlan& plan) {
    const std::vector<RunConfig> candidates = elastic_candidates(plan, wanted_);
    if (candidates.size() == 1) return candidates.front();
    const RunConfig* best = nullptr;
    double best_accuracy = -1;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const double accuracy = tried(plan, i, candidates[i]);
      if (!(accuracy > best_accuracy)) continue;
      best_accuracy = accuracy;
      best = &candidates[i];
    }
    if (best == nullptr)
      throw NumericalFailure(text("[--rates] ", plan.group(), ": none of them trains"));
    return *best;
  }

  void try_one(const ElasticPlan& plan) {
    const std::vector<RunConfig> candidates = elastic_candidates(plan, wanted_);
    const auto number = static_cast<std::size_t>(wanted_.trial);
    if (candidates.size() > 1 && number <= candidates.size())
      tried(plan, number - 1, candidates[number - 1]);
  }

  void add(ElasticPlan plan) {
    const bool tuning = plan.row.rotation != 0;
    if (tuning)
      plan.config.model.init_from =
          weights_of(plan.pretrained(), plan.row.number_format == "int8").string();
    if (wanted_.trial > 0) return try_one(plan);
    const RunConfig config = chosen(plan);
    fmt::print(stderr, "{}\n", plan.name());
    const fs::path folder = folder_of(plan.name());
    const bool was_done = is_finished(folder);
    const RunSummary summary = run_in(folder, config, console_);
    const RunConfig own = read_run_config(folder);
    ElasticRow row = plan.row;
    row.accuracy = summary.accuracy;
    row.peak_bytes = summary.peak_bytes - summary.data_bytes;
    row.predicted_bytes = summary.predicted_bytes;
    row.seconds_per_epoch = summary.seconds_per_epoch;
    row.batch = summary.batch_final;
    row.learning_rate = row.number_format == "fp32" ? own.train.lr : 0;
    row.zo_rate = row.number_format == "fp32" ? own.zeroth_order.lr : 0;
    for (const ElasticRow& recorded : rows_)  // whether its time counts was known when it ran
      if (was_done && same_run(recorded, row)) row.timed = recorded.timed;
    row.device = summary.device;
    row.commit = summary.commit;
    if (tuning) {
      row.accuracy_upright = read_summary(folder_of(plan.pretrained()) / kSummaryFile).accuracy;
      row.accuracy_before = before_tuning(row, config);
    }
    rows_ = record_elastic_rows(wanted_.out / kResultFile, std::vector{row});
  }

  /// The same for every method that starts from the same weights.
  double before_tuning(const ElasticRow& row, const RunConfig& config) const {
    for (const ElasticRow& other : rows_) {
      ElasticRow same = other;
      same.method = row.method;
      same.bp_layers = row.bp_layers;
      if (same_run(same, row) && std::isfinite(other.accuracy_before)) return other.accuracy_before;
    }
    return 100 * evaluate_weights(config).accuracy;
  }

  const ElasticReproduction& wanted_;
  RunConsole console_;
  std::vector<ElasticRow> rows_;
  RowFailures failures_;
};

RunConfig elastic_defaults() {
  RunConfig config;
  config.train.method = "elasticzo";  // takes the options of zeroth order; each row sets its own
  config.train.epochs = 8;
  config.model.name = "lenet5";
  config.model.init = "kaiming";  // the same first weights for every FP32 row of a seed
  config.data.name = "mnist";
  config.data.augment = false;  // integers do not, and neither does the paper, as far as is known
  config.run.out = "runs/reproduce-elasticzo";
  return config;
}

/// What the comparison itself sets.
std::vector<LeftOut> set_by_elastic_rows() {
  return {{"--method", "reproduce takes --methods"},
          {"--model", "reproduce takes --models"},
          {"--data", "reproduce takes --sets"},
          {"--seed", "reproduce takes --seeds"},
          {"--lr", "reproduce takes --rates"},
          {"--zo-lr", "reproduce takes --zo-rates"},
          {"--bp-layers", "reproduce takes it with the method: --methods elasticzo-2"},
          {"--freeze-head", "reproduce takes it as a method: --methods frozen-2"},
          {"--rotate", "reproduce takes --rotations"},
          {"--int8-bits", "reproduce takes --bits"},
          {"--int8-rate", "reproduce takes --zo-exponents"},
          {"--move-boundary", "the rows have fixed boundaries"},
          {"--init-from", "fine-tuning starts from the rows trained on upright images"},
          {"--val-split", "reproduce holds samples out where it chooses rates"},
          {"--steps", "reproduce takes --epochs"},
          {"--name", "reproduce names its runs itself, below --out"}};
}

int elastic_command(ElasticArguments& arguments) {
  ElasticReproduction& wanted = arguments.wanted;
  wanted.base = arguments.options->config(elastic_defaults());
  wanted.epochs = wanted.base.train.epochs;
  wanted.out = std::exchange(wanted.base.run.out, "");
  wanted.base.run.name.clear();
  wanted.base.zeroth_order.lr = 0;  // by the method
  require(!wanted.rates.empty(), "--rates", "give at least one");
  require(wanted.trial >= 0, "--trial", "candidates are counted from 1, got ", wanted.trial);
  if (arguments.no_tuning) wanted.rotations.clear();
  const std::vector<ElasticPlan> plans = elastic_plans(wanted);
  for (const ElasticPlan& plan : plans)
    for (const RunConfig& candidate : elastic_candidates(plan, wanted)) resolved(candidate);
  ElasticTable table(wanted);
  return make_rows(table, plans);
}

}  // namespace

void add_reproduce_elastic(CLI::App& reproduce, int& exit_code) {
  CLI::App* command = reproduce.add_subcommand(
      "elasticzo",
      "Compare ElasticZO with zeroth order, its frozen control and backpropagation, in FP32 and "
      "in integers, trained and fine-tuned, and print it beside the abstract's figures");
  auto arguments = std::make_shared<ElasticArguments>();
  ElasticReproduction& wanted = arguments->wanted;
  const auto list = [&](const char* flag, auto& values, const char* help) {
    return command->add_option(flag, values, help)->delimiter(',');
  };
  list("--sets", wanted.data, "mnist, fashion-mnist, modelnet40");
  list("--models", wanted.models, "lenet5, pointnet-plain (as in integers), pointnet (with norms)");
  list("--methods", wanted.methods, "bp, zo, frozen-N, elasticzo-N: N layers by backpropagation");
  list("--formats", wanted.formats, "fp32, int8");
  list("--seeds", wanted.seeds, "one run each");
  list("--rotations", wanted.rotations, "degrees to fine-tune at, from what bp trained upright");
  CLI::Option* no_tuning =
      command->add_flag("--no-fine-tuning", arguments->no_tuning, "train only");
  command
      ->add_flag("--only-fine-tuning", wanted.tuning_only,
                 "only fine-tune what an earlier command trained in the same folder")
      ->excludes(no_tuning);
  command->add_option("--tuning-samples", wanted.tuning_samples, "of fine-tuning")
      ->capture_default_str();
  command->add_option("--tuning-epochs", wanted.tuning_epochs, "of fine-tuning")
      ->capture_default_str();
  list("--rates", wanted.rates, "FP32: learning rates of backpropagated layers to choose from");
  list("--zo-rates", wanted.zo_rates, "FP32: of the others (default: the method's)");
  list("--bits", wanted.bits, "INT8: of backpropagated layers, 4-1 (default: the recipe's)");
  list("--zo-exponents", wanted.zo_exponents, "INT8: of the others, 3-6 (default: the recipe's)");
  command->add_option("--grid-epochs", wanted.grid_epochs, "of a run that chooses between them")
      ->capture_default_str();
  command->add_option("--trial", wanted.trial,
                      "only try this candidate of each row, from 1: to try them side by side");
  command->add_flag("--quick", wanted.quick, "few samples, one epoch: a minute in all");
  command->add_flag("--shared", wanted.shared, "others use the machine too: times do not count");
  arguments->options =
      std::make_unique<ConfigOptions>(*command, elastic_defaults(), set_by_elastic_rows());
  command->callback([arguments, &exit_code] { exit_code = elastic_command(*arguments); });
}

}  // namespace triaccel::cli
