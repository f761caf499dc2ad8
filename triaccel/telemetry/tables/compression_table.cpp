#include "triaccel/telemetry/tables/compression_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace triaccel {
namespace {

constexpr std::array<std::string_view, 8> kCodecOrder = {"fdsr", "lossless", "fp32",  "amp",
                                                         "bf16", "gact",     "actnn", "division"};

std::size_t place_of_codec(std::string_view codec) {
  return static_cast<std::size_t>(std::ranges::find(kCodecOrder, codec) - kCodecOrder.begin());
}

auto group_key(const CompressionRow& row) {
  return std::tie(row.model, row.image_size, row.batch, row.data, row.epochs, row.device);
}

template <typename Value>
Spread spread_over(std::span<const CompressionRow* const> rows, Value&& value) {
  std::vector<double> values;
  for (const CompressionRow* row : rows) values.push_back(value(*row));
  return spread_of(values);
}

CompressionLine line_of(std::span<const CompressionRow* const> rows) {
  const auto over = [&](auto member) {
    return spread_over(rows, [&](const CompressionRow& row) { return row.*member; });
  };
  CompressionLine line{.codec = rows[0]->codec,
                       .target_ratio = rows[0]->target_ratio,
                       .held_ratio = over(&CompressionRow::held_ratio),
                       .training_ratio = over(&CompressionRow::training_ratio),
                       .peak_ratio = over(&CompressionRow::peak_ratio),
                       .accuracy = over(&CompressionRow::accuracy),
                       .accuracy_drop = over(&CompressionRow::accuracy_drop),
                       .throughput = spread_over(rows,
                                                 [](const CompressionRow& row) {
                                                   return row.timed ? row.throughput_ratio_to_fp32
                                                                    : CompressionRow::kNot;
                                                 }),
                       .gradient_error = over(&CompressionRow::gradient_error),
                       .gradient_bias = over(&CompressionRow::gradient_bias),
                       .gradient_cosine = over(&CompressionRow::gradient_cosine)};
  for (const CompressionRow* row : rows)
    line.largest_batch = std::max(line.largest_batch, row->largest_batch);
  return line;
}

const CompressionLine* first_of(const CompressionGroup& group, std::string_view codec) {
  for (const CompressionLine& line : group.lines)
    if (line.codec == codec) return &line;
  return nullptr;
}

/// A figure of one network, for "at best".
struct BestOf {
  double value = -1;
  std::string model = {};
  void take(double candidate, const std::string& name) {
    if (std::isfinite(candidate) && candidate > value) {
      value = candidate;
      model = name;
    }
  }
};

}  // namespace

bool is_other_system(std::string_view codec) {
  return codec == "bf16" || codec == "gact" || codec == "division" || codec == "actnn";
}

std::string CompressionLine::label() const {
  if (!std::isfinite(target_ratio)) return codec;
  return fmt::format("{}, target {:g}x", codec, target_ratio);
}

std::string CompressionGroup::name() const {
  std::string out = fmt::format("{}, {} px, batch {}", model, image_size, batch);
  if (!data.empty()) out += fmt::format(", {}", data);
  if (epochs > 0) out += fmt::format(", {:g} epoch{}", epochs, epochs == 1 ? "" : "s");
  return out;
}

std::string CompressionGroup::title() const {
  return device.empty() ? name() : name() + ", " + device;
}

std::vector<CompressionGroup> compression_groups(std::span<const CompressionRow> rows) {
  std::vector<CompressionGroup> groups;
  std::vector<bool> seen(rows.size(), false);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (seen[i]) continue;
    CompressionGroup& group = groups.emplace_back();
    std::tie(group.model, group.image_size, group.batch, group.data, group.epochs, group.device) =
        group_key(rows[i]);
    // A run without a target sorts before all that have one.
    std::map<std::tuple<std::size_t, std::string, double>, std::vector<const CompressionRow*>>
        lines;
    for (std::size_t j = i; j < rows.size(); ++j) {
      if (seen[j] || group_key(rows[j]) != group_key(rows[i])) continue;
      seen[j] = true;
      const double target = std::isfinite(rows[j].target_ratio) ? rows[j].target_ratio : -1;
      lines[{place_of_codec(rows[j].codec), rows[j].codec, target}].push_back(&rows[j]);
    }
    for (const auto& [key, members] : lines) group.lines.push_back(line_of(members));
    if (const CompressionLine* actnn = first_of(group, "actnn")) {
      const double speed = actnn->throughput.mean;
      for (CompressionLine& line : group.lines)
        line.actnn_throughput = line.throughput.mean / speed;
    }
  }
  return groups;
}

std::vector<std::string> compression_findings(std::span<const CompressionGroup> groups) {
  std::vector<double> ratios, drops;
  BestOf memory, speed, saved;
  for (const CompressionGroup& group : groups) {
    const CompressionLine* ours = first_of(group, "fdsr");
    if (ours == nullptr) continue;
    ratios.push_back(ours->held_ratio.mean);
    drops.push_back(ours->accuracy_drop.mean);
    saved.take(ours->peak_ratio.mean, group.model);
    double best_other = CompressionRow::kNot;
    for (const CompressionLine& line : group.lines) {
      if (!is_other_system(line.codec)) continue;
      const double ratio = line.held_ratio.mean;
      if (std::isfinite(ratio) && !(best_other > ratio)) best_other = ratio;
    }
    memory.take(ours->held_ratio.mean / best_other, group.model);
    speed.take(ours->actnn_throughput, group.model);
  }
  std::vector<std::string> findings;
  if (const Spread mean = spread_of(ratios); mean.count > 0)
    findings.push_back(
        fmt::format("Held bytes: {:.2f} times less than FP32 on average over {} measured networks "
                    "(abstract: 10.20).",
                    mean.mean, mean.count));
  if (memory.value > 0)
    findings.push_back(fmt::format(
        "Against the best other codec in this repository: up to {:.3f} times less, on {} "
        "(abstract: up to 1.686).",
        memory.value, memory.model));
  if (saved.value > 0)
    findings.push_back(
        fmt::format("Peak of a whole step: up to {:.2f} times less than FP32's, on {}.",
                    saved.value, saved.model));
  if (const Spread mean = spread_of(drops); mean.count > 0)
    findings.push_back(
        fmt::format("Accuracy: {:.2f} points below FP32 on average over {} (abstract: 1.10).",
                    mean.mean, mean.count));
  if (speed.value > 0)
    findings.push_back(
        fmt::format("Throughput: up to {:.3f} times that of ActNN's codec, on {} (abstract: up to "
                    "1.2555 times that of other systems).",
                    speed.value, speed.model));
  return findings;
}

}  // namespace triaccel
