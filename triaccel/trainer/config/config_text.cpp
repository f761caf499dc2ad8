#include "triaccel/trainer/config/config_text.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "triaccel/formats/hash.h"

namespace triaccel {
namespace {

bool is_called(const Option& option, std::string_view key) {
  return key == option.key || (!option.former_key.empty() && key == option.former_key);
}

/// An option of earlier versions, which wrote it into every config.toml. Runs now do what
/// `value` meant.
struct RemovedOption {
  std::string_view table, key, before;  // `before`: the key it stood in front of
  std::string_view value, reason;
};
constexpr RemovedOption kRemoved = {"activations", "prediction", "rounding", "off",
                                    "predicting blocks from similar ones saved no memory"};

/// Whether it is the removed option, which must have the value that still holds.
bool is_removed(const TomlEntry& entry, std::string_view place) {
  if (entry.table != kRemoved.table || entry.key != kRemoved.key) return false;
  if (entry.value != TomlValue(std::string(kRemoved.value)))
    throw UsageError(
        text(place, "'", entry.key, "' was removed: ", kRemoved.reason, "; delete this line"));
  return true;
}

template <typename Name>
std::vector<std::string> names_of_options(Name name) {
  std::vector<std::string> names;
  for (const Option& option : all_options())
    if (std::string one = name(option); !one.empty()) names.push_back(std::move(one));
  return names;
}

const Option& option_of(const TomlEntry& entry, std::string_view place) {
  for (const Option& option : all_options())
    if (entry.table == option.table && is_called(option, entry.key)) return option;
  const auto keys = names_of_options([&](const Option& option) {
    return std::string(option.table == entry.table ? option.key : "");
  });
  if (keys.empty()) {
    auto tables = names_of_options([](const Option& o) { return std::string(o.table); });
    tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
    throw UsageError(
        text(place, "unknown table [", entry.table, "]", suggestion(entry.table, tables)));
  }
  throw UsageError(text(place, "unknown key '", entry.key, "' in [", entry.table, "]",
                        suggestion(entry.key, keys)));
}

bool is_number(std::string_view written) {
  double number = 0;
  const char* const end = written.data() + written.size();
  const auto [stop, error] = std::from_chars(written.data(), end, number);
  return error == std::errc{} && stop == end;
}

std::vector<TomlEntry> entries_of(const RunConfig& config) {
  std::vector<TomlEntry> entries;
  for (const Option& option : all_options())
    entries.push_back({.table = std::string(option.table),
                       .key = std::string(option.key),
                       .value = option.get(config)});
  return entries;
}

}  // namespace

SetOptions apply_toml(RunConfig& config, std::string_view toml, std::string_view file_name) {
  SetOptions set;
  for (const TomlEntry& entry : parse_toml(toml, file_name)) {
    const std::string place = text(file_name, ":", entry.line, ":", entry.column, ": ");
    if (is_removed(entry, place)) continue;
    const Option& option = option_of(entry, place);
    option.set(config, entry.value, text(place, "'", entry.key, "' "));
    set.push_back(&option);
  }
  return set;
}

const Option& apply_override(RunConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  require(equals != std::string_view::npos && equals > 0, assignment,
          "is neither an option nor key=value");
  const std::string_view path = assignment.substr(0, equals);
  const std::string_view written = assignment.substr(equals + 1);
  const std::size_t dot = path.find('.');
  std::vector<const Option*> matches;
  for (const Option& option : all_options()) {
    const bool in_table = dot == std::string_view::npos || path.substr(0, dot) == option.table;
    if (in_table && is_called(option, dot == std::string_view::npos ? path : path.substr(dot + 1)))
      matches.push_back(&option);
  }
  if (matches.empty()) {
    const std::string near = nearest_name(path, names_of_options([&](const Option& option) {
                                            return dot == std::string_view::npos
                                                       ? std::string(option.key)
                                                       : text(option.table, ".", option.key);
                                          }));
    throw UsageError(
        text("[", path, "] is not a key of the configuration",
             near.empty() ? "; --print-config shows all" : text("; did you mean '", near, "'?")));
  }
  // `batch=64` is the number, `batch=off` the switch of the same name.
  std::erase_if(matches, [&, several = matches.size() > 1](const Option* option) {
    const bool takes_number =
        option->kind == Option::Kind::Whole || option->kind == Option::Kind::Number;
    return several && takes_number != is_number(written);
  });
  require(matches.size() == 1, path, "is in several tables; write table.", path);
  matches[0]->set_written(config, written, text("[", path, "] "));
  return *matches[0];
}

std::string to_toml(const RunConfig& config) { return to_toml(entries_of(config)); }

std::uint64_t config_hash(const RunConfig& config) {
  std::vector<TomlEntry> entries = entries_of(config);
  // Checkpoints of earlier versions know options by their former names.
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Option& option = all_options()[i];
    const auto& [former, name] = option.renamed_value;
    if (!option.former_key.empty()) entries[i].key = option.former_key;
    if (!name.empty() && entries[i].value == TomlValue(std::string(name)))
      entries[i].value = std::string(former);
    // What earlier versions always did with built-in sets.
    if (option.key == "bad_data" && config.data.bad_data == BadDataMode::Auto)
      entries[i].value = std::string("fail");
  }
  const auto next = std::ranges::find_if(entries, [](const TomlEntry& entry) {
    return entry.table == kRemoved.table && entry.key == kRemoved.before;
  });
  entries.insert(next, {.table = std::string(kRemoved.table),
                        .key = std::string(kRemoved.key),
                        .value = std::string(kRemoved.value)});
  std::erase_if(entries, [&](const TomlEntry& entry) {
    return entry.table == "run" || entry.key == "root" || entry.key == "init_from" ||
           entry.key == "budget" || entry.key == "lossy" || entry.key == "new_head" ||
           entry.key == "weight_casts" || entry.key == "pass_size" ||
           entry.key == "offload_share" || entry.key == "recompute_segments" ||
           // Earlier versions have none of these:
           (entry.key == "projection_interval" &&
            config.train.optimizer != OptimizerKind::ApolloMini) ||
           (entry.key == "zo_layers" && config.int8.zo_layers < 0) ||
           (entry.key == "logit_gain" && config.int8.logit_gain < 0) ||
           (entry.table == "data" && (entry.key == "memory" || entry.key == "placement"));
  });
  // A run keeps its own copy of the plans it replays, and may be moved; so may the user's own data.
  for (TomlEntry& entry : entries)
    if (entry.key == "replay" || (entry.table == "data" && entry.key == "name"))
      entry.value = std::filesystem::path(std::get<std::string>(entry.value)).filename().string();
  const std::string toml = to_toml(entries);
  return xxh3(toml);
}

}  // namespace triaccel
