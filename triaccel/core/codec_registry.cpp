#include "triaccel/core/codec_registry.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/core/saved_plan.h"

namespace triaccel {
namespace {

using Codecs = std::vector<std::unique_ptr<const RegisteredCodec>>;

Codecs& all_codecs() {
  static Codecs codecs;
  return codecs;
}

/// Names that `--activations` or plans.jsonl give another meaning. The frequency codec's is
/// followed by its block size there.
bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 5> modes = {"lossless", "offloaded", "compressed", "coded",
                                                     "bounded"};
  if (std::ranges::find(modes, name) != modes.end()) return true;
  if (name.starts_with(name_of(SavedCodec::Frequency))) return true;
  for (int i = 0; i < kSavedCodecs; ++i)
    if (name == name_of(static_cast<SavedCodec>(i))) return true;
  return false;
}

bool is_valid(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::uint8_t register_codec(std::unique_ptr<const RegisteredCodec> codec) {
  constexpr std::string_view who = "register_codec";
  Codecs& codecs = all_codecs();
  const std::string_view name = codec->name();
  require(is_valid(name), who, "'", name,
          "' is not a codec name; use lower-case letters, digits and hyphens");
  require(!is_reserved(name) && !find_registered_codec(name), who, "the name '", name,
          "' is taken; choose another one");
  require(codecs.size() < std::numeric_limits<std::uint8_t>::max(), who, "at most ", codecs.size(),
          " codecs can be registered");
  codecs.push_back(std::move(codec));
  return static_cast<std::uint8_t>(codecs.size() - 1);
}

const RegisteredCodec& registered_codec(std::uint8_t number) {
  const Codecs& codecs = all_codecs();
  require(number < codecs.size(), "registered_codec", "this program has registered ", codecs.size(),
          " codecs, and the plan asks for number ", int{number},
          "; use the program that made the plan");
  return *codecs[number];
}

std::optional<std::uint8_t> find_registered_codec(std::string_view name) {
  const Codecs& codecs = all_codecs();
  for (std::size_t i = 0; i < codecs.size(); ++i)
    if (codecs[i]->name() == name) return static_cast<std::uint8_t>(i);
  return std::nullopt;
}

std::vector<std::string_view> registered_codec_names() {
  std::vector<std::string_view> names;
  for (const auto& codec : all_codecs()) names.push_back(codec->name());
  return names;
}

}  // namespace triaccel
