#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/config_options.h"
#include "cli/reproduction.h"
#include "cli/run_console.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/efficiency_score.h"
#include "triaccel/telemetry/table_text.h"
#include "triaccel/trainer/run_directory.h"
#include "triaccel/trainer/training.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct ReproduceArguments {
  std::string table;
  std::unique_ptr<ConfigOptions> options;
  Reproduction wanted;
};

/// Stops the command when the user stopped a run.
struct Interrupted {
  int exit_code;
};

/// Makes the run, goes on with it, or takes it as it is when it is done.
RunSummary run_in(const fs::path& folder, const RunConfig& config, RunConsole& console) {
  const RunSummary summary = holds_run(folder) ? resume_run(folder, console.hooks())
                                               : start_run(config, folder, console.hooks());
  if (summary.status == "interrupted") throw Interrupted{exit_code_of(summary)};
  return summary;
}

/// The best learning rate and weight decay of a method by accuracy on held-out training samples,
/// each combination trained for a few epochs under the first seed.
RunConfig tuned(RunConfig config, const Reproduction& wanted, const fs::path& folder,
                RunConsole& console) {
  config.train.lr = wanted.rates.front();
  config.train.weight_decay = wanted.decays.front();
  if (wanted.rates.size() * wanted.decays.size() == 1) return config;
  RunConfig best = config;
  double best_accuracy = -1;
  for (const double rate : wanted.rates)
    for (const double decay : wanted.decays) {
      RunConfig trial = config;
      trial.train.lr = rate;
      trial.train.weight_decay = decay;
      trial.train.epochs = wanted.grid_epochs;
      trial.train.seed = wanted.seeds.front();
      trial.data.val_split = wanted.quick ? 128 : 5000;
      const RunSummary summary =
          run_in(folder / fmt::format("lr{}-wd{}", rate, decay), trial, console);
      if (summary.best_accuracy <= best_accuracy) continue;
      best_accuracy = summary.best_accuracy;
      best.train.lr = rate;
      best.train.weight_decay = decay;
    }
  return best;
}

/// The FP32 row that a Tri-Accel row is measured against, when it has been run.
const TableRow* baseline_of(const TableRow& row, const std::vector<TableRow>& rows) {
  const auto found = std::ranges::find_if(rows, [&](const TableRow& other) {
    return other.method == "fp32" && other.table == row.table && other.model == row.model &&
           other.stem == row.stem && other.data == row.data;
  });
  return found == rows.end() ? nullptr : &*found;
}

class Table {
 public:
  explicit Table(const Reproduction& wanted) : wanted_(wanted), console_(/*quiet=*/false) {
    rows_ = read_rows(wanted.out / kResultFile);
  }

  void make(PlannedRow planned) {
    const fs::path folder = wanted_.out / "runs" / planned.name();
    const std::string group = planned.name().substr(0, planned.name().rfind('-'));
    RunConfig config = planned.config;
    limit(config, planned.row);
    config = tuned(config, wanted_, wanted_.out / "grid" / group, console_);
    fmt::print(stderr, "{}: lr {}, weight decay {}, budget {}\n", planned.name(), config.train.lr,
               config.train.weight_decay, config.device.budget);
    const RunSummary summary = run_in(folder, config, console_);
    TableRow row = table_row(summary);
    row.table = planned.row.table;
    row.configuration = planned.row.configuration;
    row.epochs = planned.row.epochs;
    row.timed = planned.row.timed;
    row.learning_rate = config.train.lr;
    row.weight_decay = config.train.weight_decay;
    if (wanted_.timing_epochs > 0) time_alone(row, config, folder);
    rows_ = record_rows(wanted_.out / kResultFile, std::vector{row});
    runs_.push_back({row, read_run_record(folder)});
  }

  void finish() {
    write_table_files(wanted_.out, rows_, wanted_.table, runs_);
    fmt::print("\n{}\nfiles: {}\n", table_text(rows_, wanted_.table), wanted_.out.string());
  }

 private:
  /// Tri-Accel trains within a share of what FP32 took, the resident data set not counted.
  void limit(RunConfig& config, const TableRow& row) const {
    if (config.train.method != "triaccel" || config.device.budget != "none") return;
    const TableRow* baseline = baseline_of(row, rows_);
    if (baseline == nullptr) return;
    const PlannedRow fp32{.row = *baseline};
    const RunSummary summary = outcome_of(read_run_record(wanted_.out / "runs" / fp32.name()));
    const double own = static_cast<double>(summary.peak_reserved_bytes - summary.data_bytes);
    config.device.budget = fmt::format(
        "{}", static_cast<std::int64_t>(wanted_.budget_share * own) + summary.data_bytes);
  }

  /// Seconds and memory from a short run that has the machine to itself.
  void time_alone(TableRow& row, RunConfig config, const fs::path& folder) {
    config.train.epochs = wanted_.timing_epochs;
    fs::path alone = folder;
    alone += "-timing";
    const RunSummary summary = run_in(alone, config, console_);
    const TableRow timing = table_row(summary);
    row.seconds_per_epoch = timing.seconds_per_epoch;
    row.peak_allocated_mb = std::max(row.peak_allocated_mb, timing.peak_allocated_mb);
    row.peak_reserved_mb = std::max(row.peak_reserved_mb, timing.peak_reserved_mb);
    row.score = efficiency_score(row.accuracy, row.seconds_per_epoch, 1e6 * row.peak_reserved_mb);
    row.timed = true;
  }

  const Reproduction& wanted_;
  RunConsole console_;
  std::vector<TableRow> rows_;
  std::vector<TableRun> runs_;
};

int reproduce_command(ReproduceArguments& arguments) {
  Reproduction& wanted = arguments.wanted;
  wanted.table = arguments.table == "table1" ? PaperTable::Table1 : PaperTable::Table2;
  RunConfig defaults;
  defaults.train.epochs = 30;
  defaults.run.out = "runs/reproduce";
  // The budget is what FP32 took, to the byte: use it, and let steps that do not fit be redone.
  defaults.control.rho_low = 0.94;
  defaults.control.rho_high = 0.97;
  wanted.base = arguments.options->config(defaults);
  wanted.epochs = wanted.base.train.epochs;
  wanted.out = std::exchange(wanted.base.run.out, "");
  wanted.base.run.name.clear();
  if (wanted.table == PaperTable::Table2) wanted.data = {wanted.data.front()};
  if (wanted.quick) wanted.epochs = std::min(wanted.epochs, 2.0);
  Table table(wanted);
  try {
    for (PlannedRow& row : planned_rows(wanted)) table.make(std::move(row));
  } catch (const Interrupted& interrupted) {
    fmt::print(stderr, "interrupted; the same command goes on where it stopped\n");
    return interrupted.exit_code;
  }
  table.finish();
  return 0;
}

}  // namespace

void add_reproduce(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "reproduce", "Run a table of the paper, row by row, and print it beside the paper's figures");
  auto arguments = std::make_shared<ReproduceArguments>();
  Reproduction& wanted = arguments->wanted;
  command->add_option("table", arguments->table, "table1 or table2")
      ->required()
      ->check(CLI::IsMember({"table1", "table2"}));
  command->add_option("--models", wanted.models, "resnet18, resnet18-cifar, efficientnet-b0, …")
      ->delimiter(',');
  command->add_option("--sets", wanted.data, "cifar10, cifar100, …")->delimiter(',');
  command->add_option("--methods", wanted.methods, "of table 1: fp32, amp, triaccel")
      ->delimiter(',');
  command->add_option("--seeds", wanted.seeds, "one run each")->delimiter(',');
  command->add_option("--timing-epochs", wanted.timing_epochs,
                      "take times from runs of this many epochs, made after the others");
  command
      ->add_option("--budget-share", wanted.budget_share,
                   "Tri-Accel's budget as a share of what FP32 took")
      ->capture_default_str();
  command->add_option("--rates", wanted.rates, "learning rates to choose from")->delimiter(',');
  command->add_option("--decays", wanted.decays, "weight decays to choose from")->delimiter(',');
  command->add_option("--grid-epochs", wanted.grid_epochs, "of a run that chooses between them")
      ->capture_default_str();
  command->add_flag("--quick", wanted.quick, "small networks, few samples: a minute in all");
  command->add_flag("--shared", wanted.shared, "others use the machine too: times do not count");
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->callback([arguments, &exit_code] { exit_code = reproduce_command(*arguments); });
}

}  // namespace triaccel::cli
