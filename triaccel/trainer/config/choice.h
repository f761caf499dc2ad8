#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"

namespace triaccel {

/// The names of an enum's values, in the order of its enumerators; choices.h specialises it.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kChoiceNames = {};

/// "must be one of a, b or c, got 'd'; did you mean 'b'?"
inline std::string not_one_of(std::string_view written, const std::vector<std::string>& known) {
  std::string all;
  for (std::size_t i = 0; i < known.size(); ++i)
    all += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + known[i];
  const std::string near = nearest_name(written, known);
  return text("must be ", known.size() > 2 ? "one of " : "", all, ", got '", written, "'",
              near.empty() ? "" : text("; did you mean '", near, "'?"));
}

/// A value of an enum that also goes by its name: programs may write config.train.method = "amp".
/// A name is parsed where it is assigned; an unknown one is a UsageError that lists the others.
template <typename Enum>
class Choice {
 public:
  constexpr Choice(Enum value) : value_(value) {}
  Choice(std::string_view name) : value_(parse(name)) {}
  Choice(const std::string& name) : Choice(std::string_view(name)) {}
  Choice(const char* name) : Choice(std::string_view(name)) {}

  static std::vector<std::string> names() {
    return {kChoiceNames<Enum>.begin(), kChoiceNames<Enum>.end()};
  }

  static std::optional<Choice> find(std::string_view name) {
    const auto& all = kChoiceNames<Enum>;
    const auto found = std::ranges::find(all, name);
    if (found == all.end()) return {};
    return Choice(static_cast<Enum>(found - all.begin()));
  }

  constexpr std::string_view name() const {
    return kChoiceNames<Enum>[static_cast<std::size_t>(value_)];
  }
  constexpr operator Enum() const { return value_; }
  constexpr operator std::string_view() const { return name(); }
  operator std::string() const { return std::string(name()); }

  friend constexpr bool operator==(Choice a, Choice b) { return a.value_ == b.value_; }
  friend constexpr bool operator==(Choice a, Enum b) { return a.value_ == b; }
  friend std::ostream& operator<<(std::ostream& out, Choice choice) { return out << choice.name(); }

 private:
  static Enum parse(std::string_view name) {
    const std::optional<Choice> found = find(name);
    if (!found) throw UsageError(not_one_of(name, names()));
    return *found;
  }

  Enum value_;
};

}  // namespace triaccel
