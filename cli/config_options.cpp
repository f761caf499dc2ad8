#include "cli/config_options.h"

#include <type_traits>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/telemetry/appended_file.h"
#include "triaccel/trainer/config_fields.h"
#include "triaccel/trainer/config_text.h"

namespace triaccel::cli {
namespace {

std::string shown(const std::string& value) { return value.empty() ? "-" : value; }
std::string shown(bool value) { return value ? "true" : "false"; }
template <typename Number>
std::string shown(Number value) {
  return text(value);
}

}  // namespace

ConfigOptions::ConfigOptions(CLI::App& command) : command_(command) {
  command.allow_extras();
  command.add_option("--config", file_, "TOML file; see --print-config for every key");
  const RunConfig defaults;
  visit_config(defaults, [&](const ConfigField& field, const auto& value) {
    Given& given = given_.emplace_back(
        Given{field.table, field.key, field.flag, "",
              std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>, nullptr});
    CLI::Option* option = command.add_option(field.flag, given.value, field.help);
    option->group(std::string("[") + field.table + "]")->default_str(shown(value));
    option->take_last();
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>) option->expected(0, 1)->type_name("BOOL");
    if constexpr (std::is_same_v<T, std::int64_t>) option->type_name("INT");
    if constexpr (std::is_same_v<T, double>) option->type_name("NUMBER");
    given.option = option;
  });
}

RunConfig ConfigOptions::config(RunConfig config) const {
  if (!file_.empty()) {
    constexpr std::int64_t most = 1 << 20;
    std::string toml;
    try {
      toml = read_text_file(file_, most);
    } catch (const StorageError& error) {
      throw UsageError(text("[--config] ", error.what()));
    }
    apply_toml(config, toml, file_);
  }
  for (const Given& given : given_) {
    if (given.option->count() == 0) continue;
    if (!given.is_switch) {
      set_field(config, given.table, given.key, given.value, given.flag);
      continue;
    }
    // A bare --deterministic means true; what follows it may be an override.
    const bool took_override = given.value.find('=') != std::string::npos;
    const bool bare = given.value.empty() || took_override;
    set_field(config, given.table, given.key, bare ? "true" : given.value, given.flag);
    if (took_override) apply_override(config, given.value);
  }
  for (const std::string& extra : command_.remaining()) {
    if (!extra.starts_with("-")) {
      apply_override(config, extra);
      continue;
    }
    std::vector<std::string> flags;
    for (const CLI::Option* option : command_.get_options()) flags.push_back(option->get_name());
    const std::string flag = extra.substr(0, extra.find('='));
    throw UsageError(text("unknown option '", flag, "'", suggestion(flag, flags)));
  }
  return resolved(std::move(config));
}

}  // namespace triaccel::cli
