#pragma once

#include <CLI/App.hpp>
#include <deque>
#include <string>
#include <vector>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// A field that a command sets by itself.
struct LeftOut {
  std::string flag;
  std::string hint;  // what to use instead
};

/// The words every command that trains understands: a flag for each field of RunConfig, --config
/// FILE and key=value. Later sources win: defaults, file, flags, key=value.
class ConfigOptions {
 public:
  /// Must outlive the parsing of `command`, whose help tells the `defaults`. Fields left
  /// out have no flag, and setting them in a file or by key=value is a UsageError with their hint.
  explicit ConfigOptions(CLI::App& command, const RunConfig& defaults = {},
                         std::vector<LeftOut> left_out = {});
  ConfigOptions(const ConfigOptions&) = delete;
  ConfigOptions& operator=(const ConfigOptions&) = delete;

  /// What was asked for, on top of `defaults`, checked and resolved. Call after parsing.
  RunConfig config(RunConfig defaults = {}) const;

 private:
  struct Given {
    std::string table, key, flag, value;
    bool is_switch;  // a bare flag means true
    const CLI::Option* option;
  };

  void require_untouched(const RunConfig& config, const RunConfig& defaults) const;

  CLI::App& command_;
  std::vector<LeftOut> left_out_;
  std::string file_;
  std::deque<Given> given_;  // CLI11 keeps references to the values
};

}  // namespace triaccel::cli
