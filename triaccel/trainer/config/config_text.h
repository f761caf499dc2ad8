#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "triaccel/trainer/config/options.h"

namespace triaccel {

/// Options in the order they were set.
using SetOptions = std::vector<const Option*>;

/// Takes the values of a TOML text into `config`. An unknown key, a wrong type, a value out of
/// range or a syntax error is a UsageError "file:line:column: what", with the nearest key.
SetOptions apply_toml(RunConfig& config, std::string_view toml, std::string_view file_name);

/// Takes "key=value" or "table.key=value"; a bare key must be in one table only.
const Option& apply_override(RunConfig& config, std::string_view assignment);

/// Every option as TOML; apply_toml gives back the same configuration.
std::string to_toml(const RunConfig& config);

/// Of what decides the result of a run: where it is written and watched does not count.
std::uint64_t config_hash(const RunConfig& config);

}  // namespace triaccel
