#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "triaccel/core/sampler.h"
#include "triaccel/int8_run/steps.h"

namespace triaccel::int8_program {

/// What defines a run, with the names and defaults of the main program.
struct RunOptions {
  std::string model = "lenet5";
  std::string data = "mnist";
  std::string root = "";
  std::string init_from = "";
  double epochs = 10;
  std::int64_t steps = 0;  // > 0: instead of epochs
  std::int64_t batch = 32;
  std::int64_t seed = 1;
  std::int64_t bp_layers = 2;
  std::int64_t width = 0;  // 0: the network's own
  std::int64_t train_samples = 0;
  std::int64_t val_split = 0;
  std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
  std::string conventions = "sample";
  std::string rate = "";
  std::string bits = "";
  std::int64_t reach = -1;
  std::int64_t zo_layers = -1;
  std::int64_t logit_gain = -1;
  bool sign = false;
  bool clean_pass = false;
  bool freeze = false;
  // What has no influence on the weights.
  std::int64_t threads = 0;  // 0: one per core
  std::string kernel = "auto";
  std::string budget = "none";

  RunExtent extent() const { return {.epochs = epochs, .steps = steps, .batch = batch}; }
};

/// What else a command takes.
struct CommandOptions {
  std::string out = "";
  bool json = false;
  bool quiet = false;
  std::vector<std::string> words = {};  // those without a flag
};

/// A flag and the variable it sets.
struct Flag {
  const char* name;  // with its dashes
  const char* help;
  std::variant<std::string*, std::int64_t*, double*, bool*> value;
  std::int64_t lowest = 0;  // of a whole number
  std::int64_t highest = std::int64_t{1} << 40;
};

std::vector<Flag> run_flags(RunOptions& run);
std::vector<Flag> command_flags(CommandOptions& command);

/// Sets what the words ask for. Throws UsageError naming the flag, its value and what is allowed.
void parse_flags(const std::vector<std::string>& words, const std::vector<Flag>& flags,
                 std::vector<std::string>& without_flag);

/// Two columns, with the defaults.
std::string help_text(const std::vector<Flag>& flags);

/// Throws UsageError for values that cannot work together.
void check_options(RunOptions run);

/// The options as the run's folder keeps them, and back. Throws StorageError naming the file.
std::string options_text(RunOptions run);
RunOptions parse_options(const std::string& written, const std::filesystem::path& file);

}  // namespace triaccel::int8_program
