#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// Takes the values of a TOML text into `config`. An unknown key, a wrong type or a syntax error
/// is a UsageError "file:line:column: what", with the nearest key that exists.
void apply_toml(RunConfig& config, std::string_view toml, std::string_view file_name);

/// Takes "key=value" or "table.key=value"; a bare key must be in one table only.
void apply_override(RunConfig& config, std::string_view assignment);

/// Sets the field `table`.`key` from text; `who` names the flag or override in errors.
void set_field(RunConfig& config, std::string_view table, std::string_view key,
               std::string_view value, std::string_view who);

/// Every field as TOML; apply_toml gives back the same configuration.
std::string to_toml(const RunConfig& config);

/// Of what decides the result of a run: where it is written and watched does not count.
std::uint64_t config_hash(const RunConfig& config);

}  // namespace triaccel
