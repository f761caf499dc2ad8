#include "triaccel/trainer/config/int8_options.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/int8/products/product.h"
#include "triaccel/policies/zeroth_order/elastic_boundary.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {
namespace {

/// libtorch's own pool, so that --threads means the same for every method.
int8::Threads pool_threads() {
  return {.count = std::min(at::get_num_threads(), int8::kMostWorkers),
          .run = [](void*, std::int32_t items, int8::Work work, void* argument) {
            at::parallel_for(0, items, 1, [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t item = begin; item < end; ++item)
                work(argument, static_cast<std::int32_t>(item), at::get_thread_num());
            });
          }};
}

/// The library's own copy of a kernel's name, which outlives the configuration.
const char* int8_kernel_name(const std::string& wanted) {
  if (wanted == "auto") return "auto";
  const int8::ProductKernel* kernel = int8::find_product_kernel(wanted.c_str());
  require(kernel != nullptr, "--int8-kernel", "this build has no kernel '", wanted,
          "'; try auto or scalar");
  require(kernel->available(), "--int8-kernel", "this CPU cannot run kernel '", wanted,
          "'; try auto");
  return kernel->name;
}

std::int64_t steps_of(const RunConfig& config, std::int64_t samples_per_epoch) {
  if (config.train.steps > 0) return config.train.steps;
  const std::int64_t batch = config.train.batch * config.train.accumulate;
  const std::int64_t total = schedule_of(config, samples_per_epoch).total_samples;
  const auto steps = [&](std::int64_t samples) { return divide_up(samples, batch); };
  return total / samples_per_epoch * steps(samples_per_epoch) + steps(total % samples_per_epoch);
}

std::optional<std::int32_t> whole_number(std::string_view written) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size()) return std::nullopt;
  return value;
}

}  // namespace

int8::Network int8_network_for(const RunConfig& config, const Int8Data& data) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const std::int32_t width = narrow(config.model.width);
  if (config.model.name == "lenet5")
    return int8::lenet5({.image_size = narrow(data.image_size),
                         .channels = narrow(data.channels),
                         .classes = narrow(data.classes),
                         .width = width > 0 ? width : int8::LeNet5Shape{}.width});
  require(config.model.name == "pointnet-plain", "--model", "'", config.model.name,
          "' has no integer form; lenet5 and pointnet-plain have");
  return int8::pointnet({.points = narrow(data.points),
                         .channels = narrow(data.channels),
                         .classes = narrow(data.classes),
                         .width = width > 0 ? width : int8::PointNetShape{}.width});
}

Int8Options int8_options(const RunConfig& config, const int8::Network& network,
                         std::int64_t samples_per_epoch) {
  const std::int64_t asked_for = config.zeroth_order.bp_layers;
  const std::int64_t bp_layers =
      asked_for < 0 ? std::min<std::int64_t>(kBpLayers, network.layer_count()) : asked_for;
  require(bp_layers <= network.layer_count(), "--bp-layers", "'", config.model.name, "' has ",
          network.layer_count(), " layers, got ", bp_layers);
  Int8Options options;
  options.step.seed = static_cast<std::uint64_t>(config.train.seed);
  options.step.bp_layers = static_cast<std::int32_t>(bp_layers);
  if (config.zeroth_order.clean_pass) options.step.backprop_pass = int8::BackpropPass::Clean;
  if (config.zeroth_order.freeze) options.step.head = int8::Head::Frozen;
  if (config.int8.conventions == Int8Conventions::Paper)
    options.step = int8::paper_conventions(options.step);
  options.step.micro_batch = static_cast<std::int32_t>(config.int8.micro_batch);
  options.step.kernel = int8_kernel_name(config.int8.kernel);
  options.step.threads = pool_threads();
  const bool sign_only =
      config.zeroth_order.sign || config.int8.conventions == Int8Conventions::Paper;
  options.recipe = int8::recipe_for(network, options.step.bp_layers, sign_only);
  int8::Recipe& recipe = options.recipe;
  recipe.rate_exponent = int8_schedule(config.int8.rate_exponent, recipe.rate_exponent,
                                       {0, int8::kMostRateExponent}, "--int8-rate");
  recipe.gradient_bits =
      int8_schedule(config.int8.gradient_bits, recipe.gradient_bits, {1, 7}, "--int8-bits");
  if (config.int8.reach >= 0) recipe.noise.reach = static_cast<std::int32_t>(config.int8.reach);
  options.total_steps = steps_of(config, samples_per_epoch);
  return options;
}

DataOptions int8_data_options(const RunConfig& config) {
  return {.name = config.data.name,
          .root = config.data.root,
          .train_samples = config.data.train_samples,
          .validation_samples = config.data.val_split,
          .image_size = config.data.image_size,
          .rotation = config.data.rotation,
          .bad_data = bad_data_rule(config),
          .seed = static_cast<std::uint64_t>(config.train.seed)};
}

int8::StepSchedule int8_schedule(std::string_view written, int8::StepSchedule fallback,
                                 ScheduleRange range, std::string_view who) {
  if (written.empty()) return fallback;
  const std::size_t dash = written.find('-', 1);
  const auto first = whole_number(written.substr(0, dash));
  const auto last = dash == written.npos ? first : whole_number(written.substr(dash + 1));
  const auto allowed = [&](const std::optional<std::int32_t>& value) {
    return value && *value >= range.lowest && *value <= range.highest;
  };
  require(allowed(first) && allowed(last), who, "'", written,
          "' is neither a whole number nor two with a dash between, each in [", range.lowest, ", ",
          range.highest, "]");
  return {*first, *last};
}

}  // namespace triaccel
