#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "triaccel/formats/toml_document.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// What a number may be.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   // low itself is outside
  bool below_high = false;  // high itself is outside

  bool contains(double value) const {
    return (above_low ? value > low : value >= low) && (below_high ? value < high : value <= high);
  }
};

/// When an option has an effect.
struct Condition {
  const char* needs;  // "--method triaccel"
  bool (*holds)(const RunConfig& config);
};

/// One option of a run: where it stands in configuration files, its flag, its help, what it may be
/// and when it has an effect. Declared by OptionTable::add and the functions that return Option&.
struct Option {
  enum class Kind { Switch, Whole, Number, Text, Choice };

  std::string_view table, key, flag, help, topic;
  Kind kind = Kind::Text;
  std::vector<std::string> (*values)() = nullptr;  // of a choice, and of a text with a fixed set
  std::function<TomlValue(const RunConfig&)> get;
  std::function<void(RunConfig&, const TomlValue&)> assign;  // of the right type and checked

  bool is_everyday = false;
  std::vector<std::string_view> aliases = {};  // further flags
  std::string_view hint = "";                  // after what is not one of `values`
  std::string_view former_key = "";            // in files of earlier versions
  std::pair<std::string_view, std::string_view> renamed_value = {};  // former name, name
  Range range = {};
  std::optional<double> automatic = {};  // the number that "auto" stands for
  const Condition* condition = nullptr;  // without it, what a user sets is refused
  const Condition* strict = nullptr;     // without it, what a program sets is, too
  bool is_filled_in = false;             // written into config.toml where the user left it open

  Option& everyday() { return is_everyday = true, *this; }
  Option& alias(std::string_view other) { return aliases.push_back(other), *this; }
  Option& hinting(std::string_view next) { return hint = next, *this; }
  Option& formerly(std::string_view old_key) { return former_key = old_key, *this; }
  Option& renamed(std::string_view old_value, std::string_view value) {
    return renamed_value = {old_value, value}, *this;
  }
  Option& one_of(std::vector<std::string> (*known)()) { return values = known, *this; }
  Option& at_least(double low) { return range = {.low = low}, *this; }
  Option& between(double low, double high) { return range = {low, high}, *this; }
  Option& above(double low, double high) { return range = {low, high, true}, *this; }
  Option& below(double low, double high) { return range = {low, high, false, true}, *this; }
  Option& or_auto(double number);  // a number outside its range
  Option& only_with(const Condition& when) { return condition = &when, *this; }
  Option& strictly_with(const Condition& when) { return strict = &when, only_with(when); }
  Option& filled_in() { return is_filled_in = true, *this; }

  /// What is wrong with a value, to follow the option's name: "must lie in [0, 1), got 3"; "" when
  /// nothing is.
  std::string problem_with(const TomlValue& value) const;

  /// Assigns a value of a file, or throws UsageError that begins with `place`.
  void set(RunConfig& config, TomlValue value, std::string_view place) const;

  /// The value that a flag or an override spells out; `place` as above.
  void set_written(RunConfig& config, std::string_view written, std::string_view place) const;

  /// As text: for help and messages.
  std::string shown(const RunConfig& config) const;

  bool is_default(const RunConfig& config) const;

  /// Throws UsageError when the value differs from the default and `needed` does not hold.
  void require_effect(const RunConfig& config, const Condition* needed) const;
};

/// Adds the options of one table of the configuration file, whose values `Access` finds and which
/// have an effect when `condition` holds, unless they say otherwise.
template <typename Access>
class OptionTable {
 public:
  OptionTable(std::vector<Option>& into, std::string_view table, std::string_view topic,
              Access access, const Condition* condition = nullptr)
      : into_(into), table_(table), topic_(topic), access_(access), condition_(condition) {}

  /// The heading of what is added next.
  void topic(std::string_view name) { topic_ = name; }

  template <typename Struct, typename T>
  Option& add(std::string_view flag, std::string_view key, T Struct::*member,
              std::string_view help) {
    Option& option = into_.emplace_back();
    option.table = table_;
    option.key = key;
    option.flag = flag;
    option.help = help;
    option.topic = topic_;
    option.condition = condition_;
    option.get = [access = access_, member](const RunConfig& config) -> TomlValue {
      return stored(access(config).*member);
    };
    option.assign = [access = access_, member, flag](RunConfig& config, const TomlValue& value) {
      assign_to(access(config).*member, value, flag);
    };
    describe(option, static_cast<T*>(nullptr));
    return option;
  }

 private:
  template <typename T>
  static TomlValue stored(const T& value) {
    return value;
  }
  template <typename Enum>
  static TomlValue stored(const Choice<Enum>& value) {
    return std::string(value.name());
  }
  static TomlValue stored(const Budget& value) { return value.text(); }
  static TomlValue stored(const ActivationMode& value) { return value.name(); }

  template <typename T>
  static void assign_to(T& field, const TomlValue& value, std::string_view flag) {
    if constexpr (std::is_arithmetic_v<T>)
      field = std::get<T>(value);
    else if constexpr (std::is_same_v<T, Budget>)
      field = Budget(std::get<std::string>(value), flag);
    else
      field = T(std::get<std::string>(value));
  }

  static void describe(Option& option, const bool*) { option.kind = Option::Kind::Switch; }
  static void describe(Option& option, const std::int64_t*) { option.kind = Option::Kind::Whole; }
  static void describe(Option& option, const double*) { option.kind = Option::Kind::Number; }
  static void describe(Option&, const void*) {}
  template <typename Enum>
  static void describe(Option& option, const Choice<Enum>*) {
    option.kind = Option::Kind::Choice;
    option.values = &Choice<Enum>::names;
  }

  std::vector<Option>& into_;
  std::string_view table_, topic_;
  Access access_;
  const Condition* condition_;
};

}  // namespace triaccel
