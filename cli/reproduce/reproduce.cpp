#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/reproduce/make_rows.h"
#include "cli/reproduce/reproduce_elastic.h"
#include "cli/reproduce/reproduce_fdsr.h"
#include "cli/reproduce/reproduction.h"
#include "cli/reproduce/row_failures.h"
#include "cli/run_console.h"
#include "cli/stored_run.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/records/efficiency_score.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/tables/table_text.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct ReproduceArguments {
  std::string table;
  const CLI::App* command = nullptr;
  std::unique_ptr<ConfigOptions> options;
  Reproduction wanted;
};

/// The FP32 row that a Tri-Accel row is measured against, when it has been run: of the same seed
/// or, where there is none, of the lowest.
const TableRow* baseline_of(const TableRow& row, const std::vector<TableRow>& rows) {
  const TableRow* found = nullptr;
  for (const TableRow& other : rows) {
    const bool same = other.method == "fp32" && other.table == row.table &&
                      other.model == row.model && other.stem == row.stem &&
                      other.data == row.data && other.epochs == row.epochs;
    if (!same || (found != nullptr && found->seed == row.seed)) continue;
    if (found == nullptr || other.seed == row.seed || other.seed < found->seed) found = &other;
  }
  return found;
}

class Table {
 public:
  explicit Table(const Reproduction& wanted) : wanted_(wanted), console_(/*quiet=*/false) {
    rows_ = read_rows(wanted.out / kResultFile);
  }

  /// Refuses, before anything is trained, what the folder's runs contradict.
  void check(const PlannedRow& planned) const {
    std::vector<std::string_view> open = {"device.budget"};
    RunConfig config = planned.config;
    config.train.lr = wanted_.grid.rates.front();
    config.train.weight_decay = wanted_.grid.decays.front();
    resolved(config);
    if (wanted_.grid.rates.size() > 1) open.push_back("train.lr");
    if (wanted_.grid.decays.size() > 1) open.push_back("train.weight_decay");
    require_same_run(folder_of(planned), config, open);
  }

  /// Makes a row. One that fails is reported and left out; the user's mistake ends the command.
  void make(const PlannedRow& planned) {
    failures_.guard(planned.name(), [&] { add(planned); });
  }

  /// The table of what there is; answers with the exit code of the first row that failed.
  int finish() {
    write_table_files(wanted_.out, rows_, wanted_.table, runs_);
    fmt::print("\n{}\nfiles: {}\n", table_text(rows_, wanted_.table), wanted_.out.string());
    return failures_.exit_code();
  }

 private:
  fs::path folder_of(const PlannedRow& planned) const {
    return wanted_.out / "runs" / planned.name();
  }

  void add(const PlannedRow& planned) {
    const fs::path folder = folder_of(planned);
    const RunConfig config = tuned(limited(planned), planned.group(), wanted_.grid, console_);
    fmt::print(stderr, "{}: lr {}, weight decay {}, budget {}\n", planned.name(), config.train.lr,
               config.train.weight_decay, config.device.budget.text());
    const bool was_done = is_finished(folder);
    const RunSummary summary = run_in(folder, config, console_);
    TableRow row = table_row(summary);
    const RunConfig own = read_run_config(folder);
    row.table = planned.row.table;
    row.configuration = planned.row.configuration;
    row.epochs = own.train.epochs;
    row.timed = planned.row.timed;
    row.learning_rate = own.train.lr;
    row.weight_decay = own.train.weight_decay;
    // Whether its time counts was known when it ran.
    const auto recorded =
        std::ranges::find_if(rows_, [&](const TableRow& other) { return same_run(other, row); });
    if (was_done && recorded != rows_.end()) row = *recorded;
    if (wanted_.timing_epochs > 0) time_alone(row, config, folder);
    rows_ = record_rows(wanted_.out / kResultFile, std::vector{row});
    runs_.push_back({row, read_run_record(folder)});
  }

  /// Tri-Accel trains within a share of what FP32 took, the resident data set not counted.
  RunConfig limited(const PlannedRow& planned) const {
    RunConfig config = planned.config;
    if (config.train.method != "triaccel" || config.device.budget != "none") return config;
    const TableRow* baseline = baseline_of(planned.row, rows_);
    if (baseline == nullptr && failures_.any())
      throw std::runtime_error("its budget is what FP32 took, and FP32 has failed");
    require(baseline != nullptr, "--methods", planned.name(),
            ": its budget is what FP32 took, and there is no such row; name fp32 before triaccel, "
            "or give --budget");
    const fs::path fp32 = folder_of({.row = *baseline});
    const RunSummary summary = read_summary(fp32 / kSummaryFile);
    const double own = static_cast<double>(summary.peak_reserved_bytes - summary.data_bytes);
    config.device.budget = fmt::format(
        "{}", static_cast<std::int64_t>(wanted_.budget_share * own) + summary.data_bytes);
    return config;
  }

  /// Seconds and memory from a short run that has the machine to itself.
  void time_alone(TableRow& row, const RunConfig& config, const fs::path& folder) {
    fs::path alone = folder;
    alone += "-timing";
    const RunSummary summary = run_in(alone, of_length(config, wanted_.timing_epochs), console_);
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
  RowFailures failures_;
};

RunConfig defaults() {
  RunConfig config;
  config.train.method = "triaccel";  // takes every control option; each row sets its own
  config.train.epochs = 30;
  config.run.out = "runs/reproduce";
  // The budget is what FP32 took, to the byte: use it, and let steps that do not fit be redone.
  config.control.batch_rules.rho_low = 0.94;
  config.control.batch_rules.rho_high = 0.97;
  return config;
}

/// What the table itself sets.
std::vector<LeftOut> set_by_the_table() {
  return {{"--method", "reproduce takes --methods"},
          {"--model", "reproduce takes --models"},
          {"--stem", "reproduce takes the stem with the network: --models resnet18-cifar"},
          {"--data", "reproduce takes --sets"},
          {"--seed", "reproduce takes --seeds"},
          {"--lr", "reproduce takes --rates"},
          {"--weight-decay", "reproduce takes --decays"},
          {"--batch", "every row of the paper's tables begins with a batch of 96"},
          {"--steps", "reproduce takes --epochs"},
          {"--replay", "every row decides its own plans; 'train' replays those of a run"},
          {"--name", "reproduce names its runs itself, below --out"}};
}

/// Checks what was asked for and fills in what follows from it.
void complete(Reproduction& wanted, const ReproduceArguments& arguments) {
  wanted.table = arguments.table == "table1" ? PaperTable::Table1 : PaperTable::Table2;
  require(wanted.table == PaperTable::Table1 || arguments.command->count("--methods") == 0,
          "--methods", "the rows of table 2 are fixed; --methods goes with table1");
  require(!wanted.shared || wanted.timing_epochs == 0, "--shared",
          "times taken on a shared machine do not count; leave out --timing-epochs, and make the "
          "timed runs later with the machine to themselves");
  wanted.base = arguments.options->config(defaults());
  wanted.epochs = wanted.quick ? std::min(wanted.base.train.epochs, 2.0) : wanted.base.train.epochs;
  wanted.out = std::exchange(wanted.base.run.out, "");
  wanted.base.run.name.clear();
  if (wanted.table == PaperTable::Table2) wanted.data.resize(1);
  RateGrid& grid = wanted.grid;
  grid.out = wanted.out;
  if (grid.rates.empty())
    grid.rates = wanted.quick ? std::vector{0.1} : std::vector{0.05, 0.1, 0.2};
  if (grid.decays.empty()) grid.decays = wanted.quick ? std::vector{5e-4} : std::vector{1e-4, 5e-4};
  require(std::ranges::all_of(grid.rates, [](double rate) { return rate > 0; }), "--rates",
          "learning rates must be positive");
  require(std::ranges::all_of(grid.decays, [](double decay) { return decay >= 0; }), "--decays",
          "weight decays must not be negative");
}

int reproduce_command(ReproduceArguments& arguments) {
  require(!arguments.table.empty(), "reproduce", "name table1, table2, elasticzo or fdsr");
  complete(arguments.wanted, arguments);
  Table table(arguments.wanted);
  const std::vector<PlannedRow> rows = planned_rows(arguments.wanted);
  for (const PlannedRow& row : rows) table.check(row);
  return make_rows(table, rows);
}

}  // namespace

void add_reproduce(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "reproduce", "Run a table of the paper, row by row, and print it beside the paper's figures");
  auto arguments = std::make_shared<ReproduceArguments>();
  Reproduction& wanted = arguments->wanted;
  command->add_option("table", arguments->table, "table1 or table2 of Tri-Accel")
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
  command
      ->add_option("--rates", wanted.grid.rates, "learning rates to choose from, for each method")
      ->delimiter(',')
      ->default_str("0.05,0.1,0.2; --quick: 0.1");
  command->add_option("--decays", wanted.grid.decays, "weight decays to choose from, likewise")
      ->delimiter(',')
      ->default_str("1e-4,5e-4; --quick: 5e-4");
  command->add_option("--grid-epochs", wanted.grid.epochs, "of a run that chooses between them")
      ->capture_default_str();
  command->add_flag("--quick", wanted.quick, "small networks, few samples: a minute in all");
  command->add_flag("--shared", wanted.shared, "others use the machine too: times do not count");
  arguments->command = command;
  arguments->options = std::make_unique<ConfigOptions>(*command, defaults(), set_by_the_table());
  add_reproduce_elastic(*command, exit_code);
  add_reproduce_fdsr(*command, exit_code);
  command->callback([arguments, &exit_code] {
    if (arguments->command->get_subcommands().empty()) exit_code = reproduce_command(*arguments);
  });
}

}  // namespace triaccel::cli
