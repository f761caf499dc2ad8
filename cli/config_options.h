#pragma once

#include <CLI/App.hpp>
#include <deque>
#include <string>
#include <vector>

#include "triaccel/trainer/config/config_text.h"

namespace triaccel::cli {

/// What a command does with its configuration.
enum class Runs {
  One,      // options without effect on it are refused
  Several,  // by several methods: an option has an effect on some of them
};

/// The arguments of every command that trains: a flag for each option of a run, --config FILE and
/// key=value. Later sources win: defaults, file, flags, key=value.
class ConfigOptions {
 public:
  /// Must outlive the parsing of `command`, whose help shows the `defaults`: everyday options, and
  /// with --help-all the others; then methods, models and data sets, before the command's footer.
  explicit ConfigOptions(CLI::App& command, const RunConfig& defaults = {});
  ConfigOptions(const ConfigOptions&) = delete;
  ConfigOptions& operator=(const ConfigOptions&) = delete;

  /// A trained run's configuration with what was asked for; only options in `allowed` may be given.
  RunConfig changed(RunConfig config, const std::vector<std::string>& allowed) const;

  /// What was asked for, on top of `defaults`, checked and resolved. Call after parsing.
  RunConfig config(RunConfig defaults = {}, Runs runs = Runs::Several) const;

 private:
  struct Given {
    const Option* option;
    std::string value;
    CLI::Option* flag;
  };

  void add_flag(const Option& option, const RunConfig& defaults);
  SetOptions apply_file(RunConfig& config) const;
  SetOptions apply_command_line(RunConfig& config) const;
  void require_known(const std::string& flag) const;

  CLI::App& command_;
  std::string file_;
  std::deque<Given> given_;  // CLI11 keeps references to the values
};

}  // namespace triaccel::cli
