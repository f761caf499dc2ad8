#include "cli/config_options.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/trainer/config/config_fields.h"
#include "triaccel/trainer/config/config_text.h"

namespace triaccel::cli {
namespace {

std::string shown(const std::string& value) { return value.empty() ? "-" : value; }
std::string shown(bool value) { return value ? "true" : "false"; }
template <typename Number>
std::string shown(Number value) {
  return text(value);
}

std::string value_of(const RunConfig& config, std::string_view flag) {
  std::string found;
  visit_config(config, [&](const ConfigField& field, const auto& value) {
    if (field.flag == flag) found = shown(value);
  });
  return found;
}

}  // namespace

ConfigOptions::ConfigOptions(CLI::App& command, const RunConfig& defaults,
                             std::vector<LeftOut> left_out)
    : command_(command), left_out_(std::move(left_out)) {
  command.allow_extras();
  command.add_option("--config", file_, "TOML file, with keys as in the config.toml of a run");
  visit_config(defaults, [&](const ConfigField& field, const auto& value) {
    if (std::ranges::find(left_out_, field.flag, &LeftOut::flag) != left_out_.end()) return;
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

void ConfigOptions::require_untouched(const RunConfig& config, const RunConfig& defaults) const {
  for (const LeftOut& field : left_out_)
    require(value_of(config, field.flag) == value_of(defaults, field.flag), field.flag, field.hint);
}

RunConfig ConfigOptions::config(RunConfig config) const {
  const RunConfig defaults = config;
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
    for (const LeftOut& field : left_out_) require(flag != field.flag, flag, field.hint);
    throw UsageError(text("unknown option '", flag, "'", suggestion(flag, flags)));
  }
  require_untouched(config, defaults);
  return resolved(std::move(config));
}

}  // namespace triaccel::cli
