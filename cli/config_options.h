#pragma once

#include <CLI/App.hpp>
#include <deque>
#include <string>

#include "triaccel/trainer/run_config.h"

namespace triaccel::cli {

/// The words every command that trains understands: a flag for each field of RunConfig, --config
/// FILE and key=value. Later sources win: defaults, file, flags, key=value.
class ConfigOptions {
 public:
  /// Must outlive the parsing of `command`.
  explicit ConfigOptions(CLI::App& command);
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

  CLI::App& command_;
  std::string file_;
  std::deque<Given> given_;  // CLI11 keeps references to the values
};

}  // namespace triaccel::cli
