#include "triaccel/telemetry/records/plan_record.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <vector>

#include "triaccel/core/codec_registry.h"

namespace triaccel {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t end = line.find(' '); end != line.npos; end = line.find(' ')) {
    words.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  words.push_back(line);
  return words;
}

std::optional<SavedCodec> codec_named(std::string_view name) {
  for (int i = 0; i < static_cast<int>(SavedCodec::Registered); ++i)
    if (name_of(static_cast<SavedCodec>(i)) == name) return static_cast<SavedCodec>(i);
  return std::nullopt;
}

/// Bits as whole eighths, in the range of a byte.
std::optional<std::uint8_t> eighths_from(std::string_view word) {
  double bits = -1;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), bits);
  const double eighths = 8 * bits;
  const bool valid = failure == std::errc{} && end == word.data() + word.size() && eighths >= 0 &&
                     eighths <= 255 && eighths == std::floor(eighths);
  return valid ? std::optional(static_cast<std::uint8_t>(eighths)) : std::nullopt;
}

constexpr std::string_view kPredicted = "predicted";  // and 256ths

bool has_one_width(SavedCodec codec) {
  return codec == SavedCodec::Groups || codec == SavedCodec::Levelled ||
         codec == SavedCodec::NonZeros;
}

}  // namespace

std::string bits_text(int eighths) { return fmt::format("{}", eighths / 8.0); }

std::string saved_plan_text(const SavedPlan& plan) {
  if (plan.codec == SavedCodec::Registered)
    return std::string(registered_codec(plan.registered).name());
  std::string out(name_of(plan.codec));
  if (has_one_width(plan.codec)) return out + ' ' + bits_text(plan.eighths);
  if (plan.codec != SavedCodec::Frequency) return out;
  out += fmt::format("{}", plan.block);
  for (const std::uint8_t eighths : plan.band_eighths) out += ' ' + bits_text(eighths);
  if (plan.predicted > 0) out += fmt::format(" {} {}", kPredicted, plan.predicted);
  return out;
}

std::optional<SavedPlan> saved_plan_from(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  std::string_view name = words[0];
  SavedPlan plan;
  if (const auto number = find_registered_codec(line))
    return SavedPlan{.codec = SavedCodec::Registered, .registered = *number};
  if (name.starts_with(name_of(SavedCodec::Frequency))) {
    const std::string_view side = name.substr(name_of(SavedCodec::Frequency).size());
    name.remove_suffix(side.size());
    if (side != "8" && side != "7" && side != "4") return std::nullopt;
    plan.block = static_cast<std::uint8_t>(side[0] - '0');
  }
  const auto codec = codec_named(name);
  if (!codec) return std::nullopt;
  plan.codec = *codec;
  const std::size_t widths = *codec == SavedCodec::Frequency ? kFrequencyBands
                             : has_one_width(*codec)         ? 1
                                                             : 0;
  if (words.size() == 3 + widths && *codec == SavedCodec::Frequency &&
      words[1 + widths] == kPredicted) {
    const std::string_view share = words[2 + widths];
    const auto [end, failure] =
        std::from_chars(share.data(), share.data() + share.size(), plan.predicted);
    if (failure != std::errc{} || end != share.data() + share.size() || plan.predicted == 0)
      return std::nullopt;
  } else if (words.size() != 1 + widths) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < widths; ++i) {
    const auto eighths = eighths_from(words[1 + i]);
    if (!eighths) return std::nullopt;
    (widths == 1 ? plan.eighths : plan.band_eighths[i]) = *eighths;
  }
  return plan;
}

}  // namespace triaccel
