#include "cli/help_format.h"

#include <sstream>
#include <utility>

namespace triaccel::cli {
namespace {

constexpr std::size_t kLeft = 30;    // columns before the text
constexpr std::size_t kWidth = 100;  // columns in all

/// `name` in the left column, `words` wrapped in the right one.
std::string two_columns(std::string name, const std::string& words) {
  std::string out = "  " + name;
  if (out.size() + 1 > kLeft) out += "\n" + std::string(kLeft, ' ');
  if (out.find('\n') == std::string::npos) out.resize(kLeft, ' ');
  std::size_t column = kLeft;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    if (column > kLeft && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(kLeft, ' ');
      column = kLeft;
    }
    if (column > kLeft) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

}  // namespace

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = option->get_name(is_positional);
  if (!is_positional) {
    const auto& long_names = option->get_lnames();
    const auto& short_names = option->get_snames();
    name = long_names.empty() ? "" : "--" + long_names.front();
    if (!short_names.empty()) name = "-" + short_names.front() + (name.empty() ? "" : ", " + name);
  }
  const std::string type = option->get_type_name();
  if (!is_positional && option->get_type_size() != 0 && !type.empty()) name += " " + type;
  std::string words = option->get_description();
  if (!option->get_default_str().empty()) words += " [" + option->get_default_str() + "]";
  return two_columns(name, words);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  std::string topics;
  const auto group_text = [&](const std::string& group, const std::string& title) {
    const auto options = app->get_options([&](const CLI::Option* option) {
      return option->get_group() == group && option->nonpositional();
    });
    return options.empty() ? "" : make_group(title, false, options);
  };
  for (const std::string& group : app->get_groups())
    if (!group.empty() && group != "Options") topics += group_text(group, group);
  const std::string own = group_text("Options", topics.empty() ? "Options" : "Other options");
  return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) + topics +
         own + make_subcommands(app, mode) + "\n" + make_footer(app);
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return two_columns(command->get_name(), command->get_description());
}

}  // namespace triaccel::cli
