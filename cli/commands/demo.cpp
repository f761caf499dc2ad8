#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/config_options.h"
#include "cli/run_console.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/telemetry/report/html_report.h"
#include "triaccel/telemetry/tables/comparison_table.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/training.h"
#include "triaccel/trainer/measure/step_timing.h"

namespace triaccel::cli {
namespace {

namespace fs = std::filesystem;

struct DemoArguments {
  std::unique_ptr<ConfigOptions> options;
};

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
    fmt::print(stderr,
               "no Fashion-MNIST here (Debian package dataset-fashion-mnist): the built-in "
               "synthetic set takes its place\n");
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

double step_ms(const RunConfig& config, const std::string& method) {
  return time_steps(resolved(with_method(config, method)), {.warmup_steps = 3, .samples = 15}).ms;
}

/// Why a method is not worth its time on this machine; empty when it is. Tri-Accel always is: a
/// step at the first batch size says nothing of a batch that grows.
std::string reason_to_leave_out(const RunConfig& config, const std::string& method,
                                double fp32_ms) {
  if (method == "fp32" || method == "triaccel") return "";
  const double ms = step_ms(config, method);
  if (ms <= fp32_ms) return "";
  return fmt::format("{:.0f} ms a step on this machine, {:.1f} times as long as fp32", ms,
                     ms / fp32_ms);
}

int demo_command(const DemoArguments& arguments) {
  const std::string device = arguments.options->config().device.device;
  const RunConfig config = arguments.options->config(demo_defaults(device));
  const fs::path folder = demo_folder(config);
  fmt::print("{} on {}, {} epoch(s), budget {}, on {}\n", config.model.name, config.data.name,
             config.train.epochs, config.device.budget.text(),
             device_text(choose_device(config.device.device)));
  RunConsole console(/*quiet=*/false);
  std::vector<ComparisonRow> rows;
  std::vector<RunRecord> records;
  const double fp32_ms = step_ms(config, "fp32");
  for (const std::string& method : std::vector<std::string>{"fp32", "amp", "triaccel"}) {
    ComparisonRow row{.summary = {.method = method},
                      .left_out = reason_to_leave_out(config, method, fp32_ms)};
    if (row.left_out.empty()) {
      RunConfig one = with_method(config, method);
      one.run.name = method;
      one.run.out = (folder / method).string();
      row.summary = start_run(one, folder / method, console.hooks());
      if (row.summary.status == "interrupted") return exit_code_of(row.summary);
      records.push_back(read_run_record(folder / method));
    }
    rows.push_back(std::move(row));
  }
  const fs::path report = folder / kReportFile;
  write_html_report(report, records, "Tri-Accel demo");
  fmt::print("\n{}\nreport: {}\n", comparison_table(rows), report.string());
  return 0;
}

}  // namespace

void add_demo(CLI::App& program, int& exit_code) {
  CLI::App* command =
      program.add_subcommand("demo", "Compare fp32, amp and triaccel on a small network");
  auto arguments = std::make_shared<DemoArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->callback([arguments, &exit_code] { exit_code = demo_command(*arguments); });
}

}  // namespace triaccel::cli
