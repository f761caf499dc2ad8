#include "cli/config_options.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/data/load_data.h"
#include "triaccel/models/model_zoo.h"
#include "triaccel/telemetry/records/appended_file.h"

namespace triaccel::cli {
namespace {

std::string flag_names(const Option& option) {
  std::string names(option.flag);
  for (const std::string_view alias : option.aliases) names += "," + std::string(alias);
  return names;
}

std::string type_name(Option::Kind kind) {
  switch (kind) {
    case Option::Kind::Switch:
      return "[BOOL]";
    case Option::Kind::Whole:
      return "INT";
    case Option::Kind::Number:
      return "NUMBER";
    case Option::Kind::Text:
      return "TEXT";
    case Option::Kind::Choice:
      return "NAME";
  }
  return "";
}

/// The help line and the default, unless the line says what the default means.
std::string help_of(const Option& option, const RunConfig& defaults) {
  const std::string value = option.shown(defaults);
  const bool explained = option.help.find(text("(", value, ":")) != std::string_view::npos;
  return std::string(option.help) + (value.empty() || explained ? "" : " [" + value + "]");
}

/// "Models: a, b, c" in lines of at most 100 characters.
std::string list_of(const std::string& title, const std::vector<std::string>& names) {
  std::string out = title;
  std::size_t line = title.size();
  for (const std::string& name : names) {
    const bool last = &name == &names.back();
    if (line + name.size() + 2 > 100) {
      out += "\n  ";
      line = 2;
    }
    out += " " + name + (last ? "\n" : ",");
    line += name.size() + 2;
  }
  return out;
}

std::string methods_models_and_data() {
  return "Methods:\n"
         "  triaccel        adapts the precision of each layer, and the batch size to --budget\n"
         "  fp32            single precision, TF32 off\n"
         "  amp             mixed precision by libtorch's autocast\n"
         "  zo              no backpropagation: two forward passes per step, in inference memory\n"
         "  elasticzo       the same, with backpropagation for the last layers\n"
         "  elasticzo-int8  the same in 8-bit integers, for lenet5 and pointnet-plain\n" +
         list_of("Models:", model_names()) + list_of("Data sets:", all_data_names()) +
         "  or a path: a folder with one folder of PNG or JPEG images per class, or an .npz or\n"
         "  .safetensors file with arrays x and y, and x_test and y_test if there is a test set\n";
}

bool contains(const SetOptions& set, std::string_view flag) {
  return std::ranges::find(set, flag, &Option::flag) != set.end();
}

/// What a file says and the command line overrules by another option.
void drop_overruled(RunConfig& config, const SetOptions& given) {
  const auto overrules = [&](std::string_view flag, std::string_view other) {
    return contains(given, flag) && !contains(given, other);
  };
  if (overrules("--epochs", "--steps")) config.train.steps = 0;
  if (overrules("--name", "--out")) config.run.out.clear();
  if (overrules("--model", "--kernels") || overrules("--stem", "--kernels"))
    config.control.kernels = RunConfig().control.kernels;
}

}  // namespace

ConfigOptions::ConfigOptions(CLI::App& command, const RunConfig& defaults) : command_(command) {
  command.allow_extras();
  const std::string own = command.get_footer();
  command.footer(methods_models_and_data() + (own.empty() ? "" : "\n" + own));
  for (const std::string_view topic : option_topics())
    for (const Option& option : all_options())
      if (option.topic == topic) add_flag(option, defaults);
  command
      .add_option("--config", file_,
                  "read options from this TOML file, such as a run's config.toml")
      ->type_name("FILE");
  const auto show_all = [this] {
    for (const Given& given : given_) given.flag->group(std::string(given.option->topic));
    throw CLI::CallForHelp();
  };
  command.add_flag_callback("--help-all", show_all, "show all options, by topic");
}

void ConfigOptions::add_flag(const Option& option, const RunConfig& defaults) {
  Given& given = given_.emplace_back(Given{&option, "", nullptr});
  given.flag = command_.add_option(flag_names(option), given.value, help_of(option, defaults));
  given.flag->group(option.is_everyday ? std::string(option.topic) : "")->take_last();
  if (option.kind == Option::Kind::Switch) given.flag->expected(0, 1);
  given.flag->type_name(type_name(option.kind));
}

void ConfigOptions::require_known(const std::string& flag) const {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command_.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  const std::string near = nearest_name(flag, flags);
  throw UsageError(
      text("unknown option '", flag, "'",
           near.empty() ? "; --help-all shows all options" : text("; did you mean '", near, "'?")));
}

SetOptions ConfigOptions::apply_file(RunConfig& config) const {
  if (file_.empty()) return {};
  constexpr std::int64_t most = 1 << 20;
  std::string toml;
  try {
    toml = read_text_file(file_, most);
  } catch (const StorageError& error) {
    throw UsageError(text("[--config] ", error.what()));
  }
  SetOptions set = apply_toml(config, toml, file_);
  if (set.size() == all_options().size()) config = with_open_options(std::move(config));
  std::erase_if(set, &Option::is_filled_in);  // perhaps by an earlier run, not by the user
  return set;
}

SetOptions ConfigOptions::apply_command_line(RunConfig& config) const {
  SetOptions set;
  for (const Given& given : given_) {
    if (given.flag->count() == 0) continue;
    const Option& option = *given.option;
    // A bare --deterministic means true; what follows it may be an override.
    const bool is_switch = option.kind == Option::Kind::Switch;
    const bool took_override = is_switch && given.value.find('=') != std::string::npos;
    const bool bare = is_switch && (given.value.empty() || took_override);
    option.set_written(config, bare ? "true" : given.value, text("[", option.flag, "] "));
    set.push_back(&option);
    if (took_override) set.push_back(&apply_override(config, given.value));
  }
  for (const std::string& extra : command_.remaining()) {
    if (extra.starts_with("-")) require_known(extra.substr(0, extra.find('=')));
    set.push_back(&apply_override(config, extra));
  }
  require(!contains(set, "--epochs") || !contains(set, "--steps") || config.train.steps == 0,
          "--steps", "is given instead of --epochs, not together with it");
  drop_overruled(config, set);
  return set;
}

RunConfig ConfigOptions::changed(RunConfig config, const std::vector<std::string>& allowed) const {
  SetOptions set = apply_file(config);
  std::ranges::copy(apply_command_line(config), std::back_inserter(set));
  std::string names;
  for (const std::string& name : allowed) names += (names.empty() ? "" : ", ") + name;
  for (const Option* option : set)
    require(std::ranges::find(allowed, option->flag) != allowed.end(), option->flag,
            allowed.empty() ? "has no effect on what a run shows"
                            : "cannot be changed for a trained run; what can: " + names);
  return config;
}

RunConfig ConfigOptions::config(RunConfig config, Runs runs) const {
  SetOptions set = apply_file(config);
  std::ranges::copy(apply_command_line(config), std::back_inserter(set));
  if (runs == Runs::One)
    for (const Option* option : set) option->require_effect(config, option->condition);
  return resolved(std::move(config));
}

}  // namespace triaccel::cli
