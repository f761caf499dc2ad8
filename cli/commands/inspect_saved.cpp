#include "cli/commands/inspect_parts.h"

#include <ATen/ops/arange.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "triaccel/base/byte_size.h"
#include "triaccel/base/error.h"
#include "triaccel/core/saved_statistics.h"
#include "triaccel/policies/compression/codec_rules.h"
#include "triaccel/policies/memory/held_bytes.h"
#include "triaccel/saved/saved_profile.h"
#include "triaccel/telemetry/records/json_fields.h"
#include "triaccel/trainer/loop/network_state.h"
#include "triaccel/trainer/loop/run_parts.h"
#include "triaccel/trainer/measure/saved_survey.h"

namespace triaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

SavedCensus census_of_run(RunConfig config) {
  require(!trains_in_integers(config), "inspect --saved", "method '", config.train.method,
          "' does not use autograd and saves no activations");
  config.data.train_samples = std::max<std::int64_t>(config.train.batch, 2);
  install_saved_tensor_engine();
  RunParts parts(config, {}, {}, {}, UnderBudget::KeepAll);
  parts.runner->follow(parts.plan);
  std::vector<at::Tensor> constants = buffers_of(parts.network);
  for (const ParameterRef& parameter : parameters_of(parts.network))
    constants.push_back(parameter.tensor);
  const at::Tensor ids = at::arange(config.train.batch).to(parts.on.device);
  const Batch batch = gather_unprepared(*parts.data.train, ids);
  const ForwardRules rules = parts.runner->forward_rules();
  SavedProfile profile(std::move(constants));
  at::Tensor logits;
  {
    const ReadingWeights reading(rules.layers);
    const SavedTensorScope scope(profile);
    logits = forward_pass(parts.network.forward, batch.inputs, rules);
  }
  return profile.census(logits, config.train.batch);
}

/// Tensors read by the same operators for the same purposes.
struct Group {
  std::string readers, kinds, codec;
  std::int64_t tensors = 0, bytes = 0, held = 0;
};

std::vector<Group> groups_of(const SavedCensus& census) {
  const std::vector<SavedStatistics> tensors = tensors_of(census);
  const std::vector<SavedPlan> plans = lossless_plans(tensors);
  std::map<std::int64_t, Group> by_tensor;  // key: entry that saved it first
  for (const SavedEntry& entry : census.entries) {
    if (entry.kind == SavedClass::Constant) continue;
    Group& group = by_tensor[entry.same_as];
    const char* joint = group.readers.empty() ? "" : " + ";
    group.readers += joint + entry.consumer;
    group.kinds += joint + std::string(name_of(entry.kind));
  }
  std::map<std::string, Group> merged;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto found = by_tensor.find(tensors[i].entry);
    if (found == by_tensor.end()) continue;
    Group& group = merged[found->second.readers + found->second.kinds];
    group.readers = found->second.readers;
    group.kinds = found->second.kinds;
    group.codec = name_of(plans[i].codec);
    group.tensors += 1;
    group.bytes += tensors[i].raw_bytes(census.samples);
    group.held += held_bytes(std::span(tensors).subspan(i, 1), std::span(plans).subspan(i, 1),
                             census.samples);
  }
  std::vector<Group> groups;
  for (auto& [key, group] : merged) groups.push_back(std::move(group));
  std::ranges::sort(groups, std::greater{}, &Group::bytes);
  return groups;
}

Json json_of(const SavedCensus& census) {
  Json entries = Json::array();
  for (const SavedEntry& entry : census.entries)
    entries.push_back({{"consumer", entry.consumer},
                       {"producer", entry.producer},
                       {"class", name_of(entry.kind)},
                       {"type", name_of(entry.type)},
                       {"sizes", entry.sizes},
                       {"per_sample", entry.per_sample},
                       {"bytes", entry.bytes},
                       {"same_as", entry.same_as},
                       {"source", entry.source}});
  return {{"samples", census.samples},
          {"unique_bytes", census.unique_bytes()},
          {"passed_bytes", census.passed_bytes()},
          {"entries", entries}};
}

void print_census(const RunConfig& config, const SavedCensus& census) {
  const auto per_sample_text = [&](std::int64_t bytes) {
    return byte_text(bytes / census.samples);
  };
  fmt::print("{}, method {}: activations saved by a forward pass, per sample\n\n",
             config.model.name, config.train.method.name());
  fmt::print("{:<52} {:>7} {:>10} {:>6}  {:<30} {:>8} {:>10}\n", "read by", "tensors", "bytes",
             "share", "purpose", "lossless", "stored");
  std::int64_t held = 0;
  for (const Group& group : groups_of(census)) {
    fmt::print("{:<52} {:>7} {:>10} {:>5.1f}%  {:<30} {:>8} {:>10}\n", group.readers, group.tensors,
               per_sample_text(group.bytes),
               100 * static_cast<double>(group.bytes) / static_cast<double>(census.unique_bytes()),
               group.kinds, group.codec, per_sample_text(group.held));
    held += group.held;
  }
  std::int64_t derivable = 0;
  for (const SavedStatistics& tensor : tensors_of(census))
    if (keeps_values(tensor.kind) && tensor.source >= 0)
      derivable += tensor.raw_bytes(census.samples);
  fmt::print(
      "\nsaved {} in {} calls, {} after deduplication\n{} with lossless compression; {} can be "
      "recomputed from the rest\n",
      per_sample_text(census.passed_bytes()), census.entries.size(),
      per_sample_text(census.unique_bytes()), per_sample_text(held), per_sample_text(derivable));
}

}  // namespace

void write_bit_widths(const RunConfig& config, const std::filesystem::path& folder) {
  require(config.activations.keep != "raw", "--bit-widths",
          "activations are not compressed; add --activations compressed");
  for (const char* name : {"saved.html", "saved.json", "saved.csv"}) {
    std::error_code error;  // also a link that leads nowhere, which would be replaced
    require(!std::filesystem::exists(std::filesystem::symlink_status(folder / name, error)),
            "--bit-widths", "'", (folder / name).string(),
            "' exists already; choose another folder");
  }
  RunParts parts(config, {}, {}, {}, UnderBudget::KeepAll);
  const SavedSurvey survey = survey_saved(parts);
  std::filesystem::create_directories(folder);
  write_saved_files(
      folder,
      saved_rows_of(survey, {.activations = config.activations, .samples = config.train.batch}),
      fmt::format("{}, activations {}", config.model.name, config.activations.keep.name()));
}

void inspect_saved(const RunConfig& config, bool json) {
  const SavedCensus census = census_of_run(config);
  if (json)
    fmt::print("{}\n", dump_line(json_of(census)));
  else
    print_census(config, census);
}

}  // namespace triaccel::cli
