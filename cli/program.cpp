#include "cli/program.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/base/version.h"

namespace triaccel::cli {
namespace {

/// The command that the words name: "bench step".
CLI::App& command_of(CLI::App& program, const std::vector<std::string>& words) {
  CLI::App* command = &program;
  for (const std::string& word : words) {
    std::vector<std::string> names;
    CLI::App* next = nullptr;
    for (CLI::App* known : command->get_subcommands([](CLI::App*) { return true; })) {
      names.push_back(known->get_name());
      if (names.back() == word) next = known;
    }
    if (names.empty())
      throw UsageError(text("'", command->get_name(), "' has no commands of its own"));
    if (next == nullptr)
      throw UsageError(text("unknown command '", word, "'",
                            word == "reproduce" ? "; the papers' tables are made by "
                                                  "'python3 bench/papers/reproduce.py'"
                                                : suggestion(word, names)));
    command = next;
  }
  return *command;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : path_of(*parent) + " ") + command.get_name();
}

std::string help_of(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, path_of(command), CLI::AppFormatMode::Normal);
}

int report_parse_error(const CLI::App& program, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  if (command->get_require_subcommand_min() > 0) say(help_of(*command));
  return report_failure(kUsage, text(error.what(), "; try '", path_of(*command), " --help'"));
}

void add_help(CLI::App& program) {
  CLI::App* command = program.add_subcommand("help", "Show the help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "such as train, or bench step");
  command->callback([&program, words] { fmt::print("{}", help_of(command_of(program, *words))); });
}

int parse_and_run(int argc, char** argv) {
  CLI::App program("Train PyTorch models in the memory you have, as fast as the device allows.",
                   "triaccel");
  program.formatter(std::make_shared<HelpFormat>());
  program.set_help_flag("-h,--help", "show this help");
  program.require_subcommand(1);
  program.set_version_flag("-v,--version", text("triaccel ", version(), " (", build_commit(), ")"),
                           "show the version");
  int exit_code = kOk;
  add_train(program, exit_code);
  add_resume(program, exit_code);
  add_eval(program);
  add_predict(program);
  add_find_lr(program, exit_code);
  add_demo(program, exit_code);
  add_plan(program);
  add_memory(program);
  add_doctor(program, exit_code);
  add_inspect(program);
  add_bench(program);
  add_ls(program);
  add_budget(program);
  add_version(program);
  add_help(program);
  // Last: commands added after it would inherit it.
  program.footer(
      "Examples:\n"
      "  triaccel demo                                compare the methods on a small network\n"
      "  triaccel train --model lenet5 --epochs 3     train on the built-in data set\n"
      "  triaccel help train                          the options of a command\n\n"
      "Exit codes: 0 ok, 1 internal, 2 usage, 3 data, 4 run locked, 5 storage, 6 out of memory at\n"
      "the smallest batch, 7 numerical failure, 8 hang, 130/143 stopped by a signal.");
  try {
    if (argc > 1 && argv[1][0] != '-') command_of(program, {argv[1]});
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(program, error);
  }
  return exit_code;
}

/// What libtorch refuses is the program's fault, unless the options leave it no choice.
int report_libtorch(const c10::Error& error) {
  const std::string message = error.what_without_backtrace();
  if (message.find("Expected more than 1 value per channel") == std::string::npos)
    return report_failure(kInternal, message);
  return report_failure(kUsage,
                        "[--batch] a batch norm got a single value per channel, which has no "
                        "variance; use two samples or more per pass, or larger images");
}

/// fmt throws where standard output cannot be written.
bool is_lost_output(const std::exception& error) {
  return output_failed() && dynamic_cast<const std::system_error*>(&error) != nullptr &&
         dynamic_cast<const std::filesystem::filesystem_error*>(&error) == nullptr;
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_output();
  if (std::any_of(argv, argv + argc,
                  [](std::string_view word) { return word == "--json" || word == "--json=true"; }))
    report_failures_as_json();
  int exit_code = kOk;
  try {
    exit_code = parse_and_run(argc, argv);
  } catch (const c10::OutOfMemoryError& error) {
    exit_code =
        report_failure(kOutOfMemory, text(error.what_without_backtrace(), "; raise --budget"));
  } catch (const c10::Error& error) {
    exit_code = report_libtorch(error);
  } catch (const std::exception& error) {
    if (!is_lost_output(error)) exit_code = report_failure(error);
  }
  return finish_output(exit_code);
}

}  // namespace triaccel::cli
