#include "cli/reproduce/fdsr_reproduction.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cli/reproduce/rate_grid.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel::cli {
namespace {

constexpr std::int64_t kOwnPixels = 32;  // of the data sets that rows are trained on

/// "resnet18-cifar@32/128": network with its stem, pixels a side, batch.
struct NetworkRow {
  std::string name = {};
  std::string model = {}, stem = {};
  std::int64_t pixels = 0, batch = 0;
};

std::int64_t number_in(std::string_view digits, const std::string& given) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  require(failure == std::errc() && end == digits.data() + digits.size() && number > 0, "--rows",
          "'", given, "' should be network@pixels/batch, as resnet50@224/64");
  return number;
}

NetworkRow network_row(const std::string& given) {
  const std::size_t at = given.find('@'), slash = given.find('/');
  require(at != given.npos && slash != given.npos && at < slash, "--rows", "'", given,
          "' should be network@pixels/batch, as resnet50@224/64");
  NetworkRow row{.name = given.substr(0, at)};
  row.pixels = number_in(std::string_view(given).substr(at + 1, slash - at - 1), given);
  row.batch = number_in(std::string_view(given).substr(slash + 1), given);
  row.model = row.name.substr(0, row.name.find("-cifar"));
  row.stem = row.name.ends_with("-cifar") ? "cifar" : "imagenet";
  const std::vector<std::string>& known = model_names();
  require(std::ranges::find(known, row.model) != known.end(), "--rows", "unknown network '",
          row.model, "'", suggestion(row.model, known));
  return row;
}

/// What `--activations` calls a codec of the table.
std::string kept_by(const std::string& codec) {
  if (codec == "fdsr") return "coded";
  return codec == "fp32" || codec == "amp" ? "raw" : codec;
}

RunConfig config_of(const FdsrReproduction& wanted, const NetworkRow& network,
                    const std::string& data, const std::string& codec, std::int64_t seed) {
  RunConfig config = of_length(wanted.base, wanted.epochs);
  config.model.name = network.model;
  config.model.stem = network.stem;
  config.data.name = data;
  config.data.image_size = network.pixels == kOwnPixels ? 0 : network.pixels;
  config.train.method = codec == "amp" ? "amp" : "fp32";
  config.train.batch = network.batch;
  config.train.seed = seed;
  config.activations.keep = kept_by(codec);
  if (!wanted.quick) return config;
  config.model.width = 8;
  config.data.train_samples = 256;
  config.train.control_interval = 4;
  return config;
}

/// FP32 first, each once.
std::vector<std::string> ordered_codecs(const FdsrReproduction& wanted) {
  static const std::vector<std::string> known = {"fp32", "amp",   "fdsr",     "lossless",
                                                 "bf16", "actnn", "division", "gact"};
  std::vector<std::string> codecs = {"fp32"};
  for (const std::vector<std::string>* list : {&wanted.codecs, &wanted.trained})
    for (const std::string& codec : *list)
      require(std::ranges::find(known, codec) != known.end(),
              list == &wanted.codecs ? "--codecs" : "--trained", "unknown codec '", codec, "'",
              suggestion(codec, known));
  for (const std::string& codec : wanted.codecs)
    if (std::ranges::find(codecs, codec) == codecs.end()) codecs.push_back(codec);
  return codecs;
}

}  // namespace

std::string FdsrPlan::group() const {
  return fmt::format("{}-{}px-batch{}-{}", row.model, row.image_size, row.batch, row.data);
}

std::string FdsrPlan::picture() const { return fmt::format("{}-{}", group(), row.codec); }

std::string FdsrPlan::name() const { return fmt::format("{}-{}", picture(), row.seed); }

std::vector<FdsrPlan> fdsr_plans(const FdsrReproduction& wanted) {
  const std::string device = device_text(choose_device(wanted.base.device.device));
  std::vector<FdsrPlan> plans;
  for (const std::string& given : wanted.rows) {
    const NetworkRow network = network_row(given);
    const bool trains = network.pixels == kOwnPixels;
    for (const std::string& data : trains ? wanted.data : std::vector<std::string>{"synthetic"})
      for (const std::string& codec : ordered_codecs(wanted)) {
        const bool trained =
            trains && std::ranges::find(wanted.trained, codec) != wanted.trained.end();
        for (const std::int64_t seed : wanted.seeds) {
          if (!trained && seed != wanted.seeds.front()) continue;
          FdsrPlan plan{.config = config_of(wanted, network, data, codec, seed),
                        .trained = trained};
          plan.row = {.model = network.name,
                      .image_size = network.pixels,
                      .batch = network.batch,
                      .codec = codec,
                      .data = data,
                      .epochs = trains ? wanted.epochs : 0,
                      .seed = static_cast<std::uint64_t>(seed),
                      .timed = !wanted.shared,
                      .device = device};
          if (codec == "fdsr") plan.row.target_ratio = plan.config.activations.ratio;
          plans.push_back(std::move(plan));
        }
      }
  }
  return plans;
}

}  // namespace triaccel::cli
