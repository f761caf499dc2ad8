#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/output.h"
#include "cli/run_console.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/telemetry/console/comparison_table.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/telemetry/report/html_report.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"
#include "triaccel/trainer/measure/step_timing.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct DemoArguments {
  std::unique_ptr<ConfigOptions> options;
  bool json = false;
};

void print_json(const std::vector<ComparisonRow>& rows, const fs::path& report) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const ComparisonRow& row : rows)
    runs.push_back(row.skipped.empty() ? nlohmann::ordered_json::parse(to_json(row.summary))
                                       : nlohmann::ordered_json{{"status", "skipped"},
                                                                {"method", row.summary.method},
                                                                {"reason", row.skipped}});
  fmt::print("{}\n", dump_line({{"report", report.string()}, {"runs", runs}}));
}

/// A slim network for one epoch on a CPU, the full one for three on a GPU; real images when the
/// machine has them.
RunConfig demo_defaults(const std::string& device) {
  RunConfig config;
  const bool gpu = choose_device(device).is_cuda();
  config.model.width = gpu ? 64 : 16;
  config.train.epochs = gpu ? 3 : 1;
  config.train.lr = 0.1;
  config.data.augment = gpu;  // one epoch is too short to profit from it
  config.device.budget = gpu ? "1GiB" : "100MiB";
  config.run.name = "demo";
  config.data.name = "fashion-mnist";
  try {
    find_data_folder("fashion-mnist", "");
  } catch (const DataError&) {
    say("Fashion-MNIST not found (Debian package dataset-fashion-mnist); using the built-in "
        "synthetic data set\n");
    config.data.name = "synthetic";
  }
  return config;
}

/// runs/demo, or runs/demo-2 and so on when there are demos already.
fs::path demo_folder(const RunConfig& config) {
  if (!config.run.out.empty()) return config.run.out;
  fs::path folder = fs::path("runs") / config.run.name;
  for (int number = 2; fs::exists(folder); ++number)
    folder = fs::path("runs") / fmt::format("{}-{}", config.run.name, number);
  return folder;
}

double step_ms(const RunConfig& config, const std::string& method,
               const StepTimingOptions& options) {
  return time_steps(resolved(with_method(config, method)), options).ms;
}

/// Why a method is not worth its time on this machine; empty when it is. A method that is several
/// times slower than FP32 is known after two steps.
std::string reason_to_skip(const RunConfig& config, const std::string& method) {
  say(fmt::format("timing a few steps of {} and fp32...\n", method));
  const StepTimingOptions few{.warmup_steps = 3, .samples = 15};
  const double fp32_ms = step_ms(config, "fp32", few);
  double ms = step_ms(config, method, {.warmup_steps = 1, .samples = 1});
  if (ms <= 4 * fp32_ms) ms = step_ms(config, method, few);
  if (ms <= fp32_ms) return "";
  const std::string reason =
      fmt::format("{:.0f} ms per step on this machine, {:.1f} times fp32", ms, ms / fp32_ms);
  say(fmt::format("skipping {}: {}\n", method, reason));
  return reason;
}

int demo_command(const DemoArguments& arguments) {
  const std::string device = arguments.options->config().device.device;
  const RunConfig config = arguments.options->config(demo_defaults(device));
  const fs::path folder = demo_folder(config);
  require(!fs::exists(folder / kReportFile), "--out", "'", (folder / kReportFile).string(),
          "' exists already; choose another folder");
  for (const char* method : {"fp32", "amp", "triaccel"})
    require_no_files_in_the_way(folder / method, with_method(config, method));
  if (!arguments.json)
    fmt::print("{} on {}, {:g} epoch{}, budget {}, on {}\n", config.model.name, config.data.name,
               config.train.epochs, config.train.epochs == 1 ? "" : "s",
               config.device.budget.text(), device_text(choose_device(config.device.device)));
  std::fflush(stdout);
  RunConsole console(/*quiet=*/false);
  std::vector<ComparisonRow> rows;
  std::vector<RunRecord> records;
  for (const std::string& method : std::vector<std::string>{"fp32", "amp", "triaccel"}) {
    // Tri-Accel is not timed first: its batch grows, so its first steps say little.
    ComparisonRow row{.summary = {.method = method},
                      .skipped = method == "amp" ? reason_to_skip(config, method) : ""};
    if (row.skipped.empty()) {
      RunConfig one = with_method(config, method);
      one.run.name = method;
      one.run.out = (folder / method).string();
      row.summary = start_run(one, folder / method, console.hooks());
      if (row.summary.status == "stopped") {
        rows.push_back(row);
        if (arguments.json) print_json(rows, "");
        return exit_code_of(row.summary);
      }
      records.push_back(read_run_record(folder / method));
    }
    rows.push_back(std::move(row));
  }
  const fs::path report = folder / kReportFile;
  write_html_report(report, records, "Tri-Accel demo");
  if (arguments.json)
    print_json(rows, report);
  else
    fmt::print("\n{}\nreport: {}\n", comparison_table(rows), printable(report.string()));
  return 0;
}

}  // namespace

void add_demo(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("demo", "Compare fp32, amp and triaccel on a small network");
  command->footer(
      "Defaults here: --data fashion-mnist, where it is installed, and --lr 0.1; on a GPU\n"
      "--epochs 3 --budget 1GiB, on a CPU --epochs 1 --width 16 --augment false --budget 100MiB.\n"
      "The methods are fp32, amp (where it is faster) and triaccel, whatever --method says.");
  auto arguments = std::make_shared<DemoArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &exit_code] { exit_code = demo_command(*arguments); });
}

}  // namespace triaccel::cli
