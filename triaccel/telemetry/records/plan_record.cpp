#include "triaccel/telemetry/records/plan_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "triaccel/base/error.h"
#include "triaccel/core/codec_registry.h"
#include "triaccel/telemetry/records/json_fields.h"

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
  for (int i = 0; i < kSavedCodecs; ++i) {
    const auto codec = static_cast<SavedCodec>(i);
    if (codec != SavedCodec::Registered && name_of(codec) == name) return codec;
  }
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

/// Plans of earlier versions may end in this and a number, which is ignored: bits that prediction
/// from similar blocks saved.
constexpr std::string_view kPredicted = "predicted";

bool has_one_width(SavedCodec codec) {
  return is_of_groups(codec) || codec == SavedCodec::NonZeros;
}

constexpr std::int64_t kMaxPlansBytes = std::int64_t{1} << 30;

constexpr std::string_view kLetters = "fbhi";        // by Precision
constexpr std::string_view kFormatLetters = "rlco";  // by ActivationFormat

bool is_scale(float value) { return std::isfinite(value) && value >= 0; }

void read_formats(const JsonFields& fields, StepPlan& plan) {
  if (!fields.has("formats")) return;
  std::string letters;
  fields.read("formats", letters);
  if (letters.size() != plan.layers.size()) fields.reject("formats", "as long as 'precisions'");
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const std::size_t format = kFormatLetters.find(letters[i]);
    if (format == kFormatLetters.npos) fields.reject("formats", "made of the letters r, l, c, o");
    plan.layers[i].saved = static_cast<ActivationFormat>(format);
  }
}

void read_saved(const JsonFields& fields, StepPlan& plan) {
  std::vector<std::string> texts;
  fields.read("saved", texts);
  for (const std::string& entry : texts) {
    const auto saved = saved_plan_from(entry);
    if (!saved) fields.reject("saved", "a list of codecs with bit widths, such as \"groups 2.5\"");
    plan.saved.push_back(*saved);
  }
}

ScheduledPlan plan_from(std::string_view line, std::string_view where) {
  const nlohmann::json json = JsonFields::parse(line, where);
  const JsonFields fields(json, where);
  ScheduledPlan record{.step = -1};
  StepPlan& plan = record.plan;
  std::string letters;
  std::vector<float> scales;
  std::int64_t bp_layers = -1;
  fields.read("step", record.step);
  fields.read("batch", plan.batch_size);
  plan.micro_batch_size = plan.batch_size;
  fields.read("micro_batch", plan.micro_batch_size);
  fields.read("learning_rate_scale", plan.learning_rate_scale);
  fields.read("precisions", letters);
  fields.read("learning_rate_scales", scales);
  fields.read("bp_layers", bp_layers);

  if (record.step < 0) fields.reject("step", "present and non-negative");
  if (plan.batch_size < 1) fields.reject("batch", "present and at least 1");
  if (plan.micro_batch_size < 1 || plan.micro_batch_size > plan.batch_size)
    fields.reject("micro_batch", "between 1 and the batch size");
  if (!is_scale(plan.learning_rate_scale)) fields.reject("learning_rate_scale", "0 or more");
  if (!fields.has("precisions"))
    fields.reject("precisions", "present, one letter (f, b, h, i) per layer");
  if (!scales.empty() && scales.size() != letters.size())
    fields.reject("learning_rate_scales", "as long as 'precisions'");
  if (!std::all_of(scales.begin(), scales.end(), is_scale))
    fields.reject("learning_rate_scales", "a list of non-negative numbers");
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const auto precision = precision_of(letters[i]);
    if (!precision) fields.reject("precisions", "made of the letters f, b, h, i");
    plan.layers.push_back(
        {.compute = *precision, .learning_rate_scale = scales.empty() ? 1.0f : scales[i]});
  }
  read_formats(fields, plan);
  read_saved(fields, plan);
  if (!fields.has("bp_layers")) return record;
  const auto layers = static_cast<std::int64_t>(letters.size());
  if (bp_layers < 0 || bp_layers > layers)
    fields.reject("bp_layers", "between 0 and the number of layers");
  for (std::int64_t i = 0; i < layers - bp_layers; ++i)
    plan.layers[static_cast<std::size_t>(i)].gradient = GradientSource::ZerothOrder;
  return record;
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
  const bool was_predicted = words.size() == 3 + widths && *codec == SavedCodec::Frequency &&
                             words[1 + widths] == kPredicted;
  if (words.size() != 1 + widths && !was_predicted) return std::nullopt;
  for (std::size_t i = 0; i < widths; ++i) {
    const auto eighths = eighths_from(words[1 + i]);
    if (!eighths) return std::nullopt;
    (widths == 1 ? plan.eighths : plan.band_eighths[i]) = *eighths;
  }
  return plan;
}

char letter_of(Precision precision) { return kLetters[static_cast<std::size_t>(precision)]; }

std::optional<Precision> precision_of(char letter) {
  const std::size_t index = kLetters.find(letter);
  if (index == kLetters.npos) return std::nullopt;
  return static_cast<Precision>(index);
}

std::string precision_letters(const StepPlan& plan) {
  std::string letters;
  for (const LayerPlan& layer : plan.layers) letters += letter_of(layer.compute);
  return letters;
}

std::string to_jsonl(const ScheduledPlan& record) {
  nlohmann::ordered_json json = {
      {"step", record.step},
      {"batch", record.plan.batch_size},
      {"micro_batch", record.plan.micro_batch_size},
      {"learning_rate_scale", short_double(record.plan.learning_rate_scale)},
      {"precisions", precision_letters(record.plan)}};
  nlohmann::ordered_json& scales = json["learning_rate_scales"] = nlohmann::ordered_json::array();
  for (const LayerPlan& layer : record.plan.layers)
    scales.push_back(short_double(layer.learning_rate_scale));
  const auto zeroth_order_layers =
      std::ranges::count(record.plan.layers, GradientSource::ZerothOrder, &LayerPlan::gradient);
  if (zeroth_order_layers > 0)
    json["bp_layers"] = static_cast<std::int64_t>(record.plan.layers.size()) - zeroth_order_layers;
  std::string formats;
  for (const LayerPlan& layer : record.plan.layers)
    formats += kFormatLetters[static_cast<std::size_t>(layer.saved)];
  if (formats.find_first_not_of(kFormatLetters[0]) != formats.npos) json["formats"] = formats;
  for (const SavedPlan& saved : record.plan.saved) json["saved"].push_back(saved_plan_text(saved));
  return dump_line(json);
}

std::vector<ScheduledPlan> read_plans(
    const std::filesystem::path& path,
    const std::function<void(const std::string& problem)>& on_damage) {
  std::vector<ScheduledPlan> plans;
  const auto read = [&](const std::string& line, const std::string& where) {
    ScheduledPlan record = plan_from(line, where);
    if (!plans.empty() && record.plan.layers.size() != plans.back().plan.layers.size())
      throw StorageError(text(where, ": a plan for ", record.plan.layers.size(),
                              " layers follows one for ", plans.back().plan.layers.size()));
    return record;
  };
  for_each_json_line(path, kMaxPlansBytes, [&](const std::string& line, const std::string& where) {
    ScheduledPlan record;
    try {
      record = read(line, where);
    } catch (const StorageError& error) {
      if (!on_damage) throw;
      return on_damage(error.what());
    }
    while (!plans.empty() && plans.back().step >= record.step) plans.pop_back();
    plans.push_back(std::move(record));
  });
  return plans;
}

}  // namespace triaccel
