#include "cli/program.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <string>

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/failures.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"

namespace triaccel::cli {
namespace {

/// Names the nearest command when the first word is none.
int report_parse_error(const CLI::App& program, const CLI::ParseError& error, int argc,
                       char** argv) {
  if (error.get_exit_code() == 0) return program.exit(error);  // --help
  std::string hint;
  if (argc > 1 && argv[1][0] != '-' && program.get_subcommands().empty()) {
    std::vector<std::string> names;
    for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
    const std::string given = argv[1];
    hint = text("unknown command '", given, "'",
                given == "reproduce" ? "; the papers' tables are made by "
                                       "'python3 bench/papers/reproduce.py'"
                                     : suggestion(given, names));
  } else {
    hint = error.what();
  }
  fmt::print(stderr, "triaccel: {}\nTry 'triaccel --help'.\n", hint);
  return kUsage;
}

int parse_and_run(int argc, char** argv) {
  CLI::App program("Train your PyTorch model in the memory you have, as fast as the device allows.",
                   "triaccel");
  program.require_subcommand(1);
  program.footer(
      "Exit codes: 0 ok, 1 internal, 2 usage, 3 data, 4 run locked, 5 storage, 6 out of memory at\n"
      "the smallest batch, 7 numerical failure, 8 hang, 130/143 stopped by a signal.");
  int exit_code = kOk;
  add_train(program, exit_code);
  add_resume(program, exit_code);
  add_eval(program);
  add_find_lr(program, exit_code);
  add_demo(program, exit_code);
  add_memory(program);
  add_doctor(program, exit_code);
  add_inspect(program);
  add_bench(program);
  add_ls(program);
  add_version(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(program, error, argc, argv);
  }
  return exit_code;
}

}  // namespace

int run_program(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file over its limit is a failed write, not a death
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    return report_failure(error);
  }
}

}  // namespace triaccel::cli
