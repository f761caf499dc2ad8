// triaccel-int8: trains, evaluates and exports integer networks without libtorch.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "apps/int8/commands.h"
#include "apps/int8/options.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/base/version.h"

namespace triaccel::int8_program {
namespace {

constexpr const char* kUsage =
    "triaccel-int8 trains small networks in integers only, in a few megabytes of memory.\n\n"
    "  triaccel-int8 train [OPTIONS]          train a network and write checkpoints and weights\n"
    "  triaccel-int8 resume RUN [OPTIONS]     continue a run from its latest checkpoint\n"
    "  triaccel-int8 eval RUN [OPTIONS]       evaluate a run's latest checkpoint on its test set\n"
    "  triaccel-int8 eval --init-from FILE    evaluate exported weights\n"
    "  triaccel-int8 export RUN FILE          write a run's weights as safetensors\n"
    "  triaccel-int8 help, --help, --version\n\n";

constexpr const char* kExamples =
    "\nresume takes --data-root, --threads, --budget and --int8-kernel, eval also --data.\n\n"
    "Examples:\n"
    "  triaccel-int8 train --data mnist --data-root ~/mnist --epochs 8 --budget 8MiB -o first\n"
    "  triaccel-int8 export first lenet5.safetensors\n"
    "  triaccel eval --method elasticzo-int8 --model lenet5 --data mnist --data-root ~/mnist \\\n"
    "    --init-from lenet5.safetensors\n\n"
    "Exit codes: 0 ok, 1 internal, 2 usage, 3 data, 4 run locked, 5 storage, 6 out of memory,\n"
    "130/143 stopped by a signal.\n";

int run_command(const Words& words) {
  const auto asks = [&](std::string_view flag, std::string_view shorter) {
    return std::ranges::find_if(words, [&](const std::string& word) {
             return word == flag || word == shorter;
           }) != words.end();
  };
  if (asks("--help", "-h") || (!words.empty() && words[0] == "help")) {
    RunOptions run;
    CommandOptions command;
    print(kUsage + help_text(run_flags(run)) + help_text(command_flags(command)) + kExamples);
    return cli::kOk;
  }
  if (!words.empty() && (words[0] == "--version" || words[0] == "-v" || words[0] == "version")) {
    if (asks("--json", "--json"))
      print_json({{"version", version()}, {"commit", build_commit()}});
    else
      print(text("triaccel-int8 ", version(), " (", build_commit(), ")\n"));
    return cli::kOk;
  }
  const Words rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  const std::string name = words.empty() ? "" : words[0];
  if (name == "train") return train_command(rest);
  if (name == "resume") return resume_command(rest);
  if (name == "eval") return eval_command(rest);
  if (name == "export") return export_command(rest);
  if (name.empty() || name.starts_with('-')) {
    cli::say(kUsage);
    throw UsageError("name a command; see 'triaccel-int8 help'");
  }
  throw UsageError(text("unknown command '", name, "'",
                        suggestion(name, Words{"train", "resume", "eval", "export", "help"})));
}

}  // namespace
}  // namespace triaccel::int8_program

/// Instead of libstdc++'s, which brings a demangler along: an exception that nobody catches is a
/// bug of ours, and the main function catches all of them.
void __gnu_cxx::__verbose_terminate_handler() { std::abort(); }

int main(int argc, char** argv) {
  using namespace triaccel;
  cli::program_name = "triaccel-int8";
  cli::prepare_output();
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (std::ranges::count(words, "--json") > 0) cli::report_failures_as_json();
  int exit_code = cli::kOk;
  try {
    exit_code = int8_program::run_command(words);
  } catch (const std::exception& error) {
    exit_code = cli::report_failure(error);
  }
  return cli::finish_output(exit_code);
}
