#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/telemetry/records/summary.h"
#include "triaccel/trainer/loop/run_directory.h"
#include "triaccel/trainer/loop/run_status.h"

namespace triaccel::cli {
namespace {

struct Listed {
  std::string directory;
  RunSummary summary;
  std::string damage;  // error reading the run; empty: none
};

Listed read_listed(const std::filesystem::path& directory) {
  try {
    return {directory.string(), outcome_now(directory), ""};
  } catch (const StorageError& error) {
    return {directory.string(), {}, error.what()};
  }
}

void print_json(const std::vector<Listed>& runs) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Listed& run : runs) {
    nlohmann::ordered_json one = {{"run", run.directory}};
    if (run.damage.empty())
      one.update(nlohmann::ordered_json::parse(to_json(run.summary)));
    else
      one["error"] = run.damage;
    all.push_back(std::move(one));
  }
  fmt::print("{}\n", dump_line(all));
}

void print_table(std::vector<Listed> runs) {
  for (Listed& run : runs)
    for (std::string* shown :
         {&run.directory, &run.summary.status, &run.summary.method, &run.damage})
      *shown = printable(*shown);
  std::size_t width = 3, method_width = 6;
  for (const Listed& run : runs) {
    width = std::max(width, run.directory.size());
    method_width = std::max(method_width, run.summary.method.size());
  }
  fmt::print("{:<{}}  {:<13} {:<{}} {:>9} {:>8} {:>9} {:>10}\n", "run", width, "status", "method",
             method_width, "accuracy", "steps", "seconds", "peak");
  for (const Listed& run : runs) {
    if (!run.damage.empty()) {
      fmt::print("{:<{}}  damaged: {}\n", run.directory, width, run.damage);
      continue;
    }
    const RunSummary& s = run.summary;
    const std::string accuracy =
        std::isnan(s.accuracy) ? std::string("-") : fmt::format("{:.2f} %", s.accuracy);
    fmt::print("{:<{}}  {:<13} {:<{}} {:>9} {:>8} {:>9.1f} {:>10}\n", run.directory, width,
               s.status, s.method, method_width, accuracy, s.steps, s.seconds,
               byte_text(s.peak_bytes));
  }
}

}  // namespace

void add_ls(CLI::App& program) {
  struct Arguments {
    std::string root = "runs";
    bool json = false;
  };
  CLI::App* command = program.add_subcommand("ls", "List the runs below a folder");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("folder", arguments->root, "folder of the runs")->capture_default_str();
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] {
    std::vector<Listed> runs;
    if (arguments->root == "runs" && !std::filesystem::exists("runs")) {
      fmt::print("{}\n", arguments->json ? "[]" : "no runs yet; see 'triaccel train --help'");
      return;
    }
    for (const auto& directory : list_runs(arguments->root)) runs.push_back(read_listed(directory));
    arguments->json ? print_json(runs) : print_table(runs);
  });
}

}  // namespace triaccel::cli
