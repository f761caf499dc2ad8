#include "triaccel/int8_run/steps.h"

#include <algorithm>
#include <charconv>
#include <numbers>
#include <optional>

#include "triaccel/base/error.h"
#include "triaccel/int8/layers/backward.h"
#include "triaccel/int8/products/product.h"

namespace triaccel {
namespace {

constexpr ScheduleRange kRateRange = {0, int8::kMostRateExponent};
constexpr ScheduleRange kBitsRange = {1, 7};

/// The library's own copy of a kernel's name, which outlives the settings.
const char* int8_kernel_name(const std::string& wanted) {
  if (wanted == "auto") return "auto";
  const int8::ProductKernel* kernel = int8::find_product_kernel(wanted.c_str());
  require(kernel != nullptr, "--int8-kernel", "this build has no kernel '", wanted,
          "'; try auto or scalar");
  require(kernel->available(), "--int8-kernel", "this CPU cannot run kernel '", wanted,
          "'; try auto");
  return kernel->name;
}

std::optional<std::int32_t> schedule_value(std::string_view written) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size()) return std::nullopt;
  return value;
}

}  // namespace

Int8Options int8_options(const Int8Settings& settings, const int8::Network& network,
                         std::int64_t total_steps) {
  require(settings.bp_layers <= network.layer_count(), "--bp-layers", "the network has ",
          network.layer_count(), " layers, got ", settings.bp_layers);
  const std::int64_t most_samples = int8::most_backward_samples(
      network, network.layer_count() - static_cast<std::int32_t>(settings.bp_layers));
  require(settings.batch <= most_samples, "--batch", "gradients of the last ", settings.bp_layers,
          " layers fit int32 up to a batch of ", most_samples, ", got ", settings.batch,
          "; use a smaller --batch or fewer --bp-layers");
  Int8Options options;
  options.step.seed = settings.seed;
  options.step.bp_layers = static_cast<std::int32_t>(settings.bp_layers);
  const bool sign_only = settings.sign_only || settings.paper;
  int8::Recipe& recipe = options.recipe;
  recipe =
      int8::with_length(int8::recipe_for(network, options.step.bp_layers, sign_only), total_steps);
  if (settings.clean_pass || recipe.clean_pass)
    options.step.backprop_pass = int8::BackpropPass::Clean;
  if (settings.freeze) options.step.head = int8::Head::Frozen;
  if (settings.paper) options.step = int8::paper_conventions(options.step);
  options.step.micro_batch = static_cast<std::int32_t>(settings.micro_batch);
  options.step.kernel = int8_kernel_name(settings.kernel);
  options.step.threads = settings.threads;
  recipe.rate_exponent =
      int8_schedule(settings.rate_exponent, recipe.rate_exponent, kRateRange, "--int8-rate");
  recipe.gradient_bits =
      int8_schedule(settings.gradient_bits, recipe.gradient_bits, kBitsRange, "--int8-bits");
  if (settings.reach >= 0) recipe.noise.reach = static_cast<std::int32_t>(settings.reach);
  options.step.zo_layers =
      settings.zo_layers >= 0 ? static_cast<std::int32_t>(settings.zo_layers) : recipe.zo_layers;
  if (settings.logit_gain >= 0)
    recipe = int8::with_logit_gain(recipe, static_cast<std::int32_t>(settings.logit_gain));
  options.total_steps = total_steps;
  return options;
}

int8::Network int8_network(const std::string& model, std::int64_t width, const Int8Shape& shape) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  if (model == "lenet5")
    return int8::lenet5({.image_size = narrow(shape.image_size),
                         .channels = narrow(shape.channels),
                         .classes = narrow(shape.classes),
                         .width = width > 0 ? narrow(width) : int8::LeNet5Shape{}.width});
  require(model == "pointnet-plain", "--model", "'", model,
          "' has no integer form; lenet5 and pointnet-plain have");
  return int8::pointnet({.points = narrow(shape.points),
                         .channels = narrow(shape.channels),
                         .classes = narrow(shape.classes),
                         .width = width > 0 ? narrow(width) : int8::PointNetShape{}.width});
}

int8::StepSchedule int8_schedule(std::string_view written, int8::StepSchedule fallback,
                                 ScheduleRange range, std::string_view who) {
  if (written.empty()) return fallback;
  const std::size_t dash = written.find('-', 1);
  const auto first = schedule_value(written.substr(0, dash));
  const auto last = dash == written.npos ? first : schedule_value(written.substr(dash + 1));
  const auto allowed = [&](const std::optional<std::int32_t>& value) {
    return value && *value >= range.lowest && *value <= range.highest;
  };
  require(allowed(first) && allowed(last), who, "'", written,
          "' is neither a whole number nor two with a dash between, each in [", range.lowest, ", ",
          range.highest, "]");
  return {*first, *last};
}

void check_int8_schedules(std::string_view rate_exponent, std::string_view gradient_bits) {
  int8_schedule(rate_exponent, {}, kRateRange, "--int8-rate");
  int8_schedule(gradient_bits, {}, kBitsRange, "--int8-bits");
}

double int8_nats(std::int64_t loss) {
  return static_cast<double>(loss) * std::numbers::ln2 / 65536;
}

int8::StepReport Int8CpuSteps::train(int8::State& state, const Int8Reader& from,
                                     std::span<const std::int64_t> ids,
                                     const int8::StepOptions& now) {
  return int8::train_step(state, batch_.gather(from, ids), now, arena_);
}

int8::Evaluation Int8CpuSteps::evaluate(const int8::State& state, const Int8Reader& from,
                                        std::span<const std::int64_t> ids, std::int64_t batch,
                                        const int8::StepOptions& options,
                                        const std::function<void()>& alive) {
  int8::Evaluation sum;
  const auto size = static_cast<std::size_t>(batch);
  for (std::size_t at = 0; at < ids.size(); at += size) {
    const auto part = ids.subspan(at, std::min(size, ids.size() - at));
    const int8::Evaluation found =
        int8::evaluate(state, batch_.gather(from, part), options, arena_);
    sum.correct += found.correct;
    sum.loss += found.loss;
    if (alive) alive();
  }
  return sum;
}

}  // namespace triaccel
