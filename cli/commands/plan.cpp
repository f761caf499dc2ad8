#include <fmt/core.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/plan_page.h"
#include "cli/config_options.h"
#include "triaccel/base/byte_size.h"
#include "triaccel/base/divide_up.h"
#include "triaccel/base/error.h"
#include "triaccel/device/device_choice.h"
#include "triaccel/device/first_product.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/trainer/loop/memory_census.h"

namespace triaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

struct PlanArguments {
  std::unique_ptr<ConfigOptions> options;
  bool sweep = false;
  std::string plot;
  bool json = false;
};

/// The options of 'triaccel train' that follow a plan.
std::string options_of(const MemoryPlan& plan, const MemoryRequest& request) {
  std::string options = fmt::format("--batch {}", request.batch);
  if (request.accumulated) options += " --accumulate 1";
  if (plan.pass_size < request.batch) options += fmt::format(" --pass-size {}", plan.pass_size);
  if (plan.pass.casts_by_layer) options += " --weight-casts layer";
  if (plan.state_storage == StateStorage::EightBits) options += " --optimizer-state fp8";
  if (plan.state_storage == StateStorage::Host) options += " --optimizer-state host";
  if (plan.data_on_host) options += " --data-placement host";
  if (plan.pass.activations != ActivationFormat::Raw && !request.compressed)
    options += fmt::format(" --activations {}", name_of(plan.pass.activations));
  if (plan.pass.offload_share < 1)
    options += fmt::format(" --offload-share {:g}", plan.pass.offload_share);
  if (plan.pass.recompute_norms) options += " --recompute-norms true";
  if (plan.pass.recompute_segments > 0)
    options += fmt::format(" --recompute-segments {:g}", plan.pass.recompute_segments);
  if (plan.pass.eager) options += " --graphs off";
  return options;
}

Json plan_json(const MemoryPlan& plan, const MemoryRequest& request) {
  return {{"bytes", plan.bytes()},
          {"budget_bytes", budget_for(plan.bytes())},
          {"weight_bytes", plan.weights},
          {"state_bytes", plan.state},
          {"data_bytes", plan.data},
          {"step_bytes", plan.step},
          {"activation_bytes", plan.activations},
          {"pass_size", plan.pass_size},
          {"passes", divide_up(request.batch, plan.pass_size)},
          {"activations", name_of(plan.pass.activations)},
          {"offload_share", plan.pass.offload_share},
          {"recompute_norms", plan.pass.recompute_norms},
          {"recompute_segments", plan.pass.recompute_segments},
          {"eager", plan.pass.eager},
          {"casts_by_layer", plan.pass.casts_by_layer},
          {"state_bits", plan.state_storage == StateStorage::EightBits ? 8 : 32},
          {"state_on_host", plan.state_storage == StateStorage::Host},
          {"data_on_host", plan.data_on_host},
          {"lossiness", name_of(plan.lossiness)},
          {"samples_per_second", plan.samples_per_second},
          {"options", options_of(plan, request)}};
}

std::string state_text(StateStorage storage, const RunConfig& config) {
  switch (storage) {
    case StateStorage::AsAsked:
      break;
    case StateStorage::EightBits:
      return "8 bits";
    case StateStorage::Host:
      return "in host memory";
  }
  return std::string(config.train.optimizer_state.name());
}

std::string recomputed_text(double share) {
  if (share == 0) return "";
  return share < 1 ? fmt::format(", {:.0f} % recomputed", 100 * share) : ", blocks recomputed";
}

std::string activation_text(const MemoryPlan& plan, const MemoryRequest& request) {
  const std::int64_t passes = divide_up(request.batch, plan.pass_size);
  const bool alike = request.batch % plan.pass_size == 0;
  const double share = plan.pass.offload_share;
  return fmt::format(
      "{}{}{}{}, {}{} samples{}", share < 1 ? fmt::format("{:.0f} % ", 100 * share) : "",
      name_of(plan.pass.activations), plan.pass.recompute_norms ? ", norms recomputed" : "",
      recomputed_text(plan.pass.recompute_segments), alike ? "" : "at most ", plan.pass_size,
      passes > 1 ? fmt::format(" in each of {} passes", passes) : "");
}

void print_plan(const MemoryPlan& plan, const MemoryCensus& census, const RunConfig& config) {
  const auto row = [](const char* part, std::int64_t bytes, const std::string& how) {
    fmt::print("  {:<28}{:>12}  {}\n", part, byte_text(bytes), how);
  };
  row("weights and buffers", plan.weights, "FP32");
  row("optimizer state", plan.state, state_text(plan.state_storage, config));
  row("data set", plan.data, plan.data_on_host ? "in host memory" : "on the device");
  row("gradients and workspace", plan.step,
      plan.pass.whole ? "" : "gradients of all passes are summed in FP32");
  if (plan.pass.casts_by_layer)
    fmt::print("  {:<42}{}\n", "", "weights rounded to 16 bits per layer");
  row("activations", plan.activations, activation_text(plan, census.request));
  row("total", plan.bytes(),
      fmt::format("{}, about {:.0f} samples/s", name_of(plan.lossiness), plan.samples_per_second));
  fmt::print("  triaccel train … {}\n", options_of(plan, census.request));
}

void print_sweep(const std::vector<MemoryPlan>& best, const MemoryCensus& census) {
  fmt::print("  {:>12}  {:>10}  {:<15} {}\n", "budget", "samples/s", "", "options");
  for (const MemoryPlan& plan : best)
    fmt::print("  {:>12}  {:>10.0f}  {:<15} {}\n", byte_text_upwards(budget_for(plan.bytes())),
               plan.samples_per_second, name_of(plan.lossiness), options_of(plan, census.request));
}

std::vector<MemoryPlan> sweep_of(RunParts& parts, const std::vector<MemoryPlan>& plans) {
  std::vector<MemoryPlan> measured;
  for (const MemoryPlan& plan : best_by_budget(plans))
    if (const auto found = measured_plan(parts, plan, /*profile=*/true)) measured.push_back(*found);
  return best_by_budget(measured);
}

void plan_command(const PlanArguments& arguments) {
  RunConfig config = arguments.options->config();
  check_first_product(/*always=*/false);
  const c10::Device device = choose_device(config.device.device);
  const std::int64_t budget = config.device.budget.bytes_on(device_total_bytes(device));
  RunParts parts(without_budget(config));
  const MemoryCensus census = take_memory_census(parts);
  const std::vector<MemoryPlan> plans = memory_plans(census.costs, census.request);
  if (plans.empty()) throw OutOfMemory("[plan] not even the smallest step fits on the device");
  std::optional<MemoryPlan> plan = best_plan(
      parts, plans, budget > 0 ? planned_share(budget) : kUnlimited, /*profile=*/budget == 0);
  const std::optional<MemoryPlan> least = least_plan(parts, census);
  const std::int64_t least_budget = least ? budget_for(least->bytes()) : 0;
  if (!plan && least && least_budget <= budget) plan = least;  // its steps fit there
  std::vector<MemoryPlan> sweep;
  if (arguments.sweep || !arguments.plot.empty()) sweep = sweep_of(parts, plans);
  const std::string facts =
      fmt::format("{}, batch {}, {}, {}", config.model.name, census.request.batch,
                  config.train.method.name(), device_text(device));
  if (!arguments.plot.empty()) {
    std::vector<PlanPoint> points;
    for (const MemoryPlan& one : sweep) points.push_back({one, options_of(one, census.request)});
    write_atomically(arguments.plot, plan_page(points, facts));
  }
  if (arguments.json && plan) {  // else the error is the one document
    Json found = {{"model", config.model.name},
                  {"method", config.train.method.name()},
                  {"batch", census.request.batch},
                  {"device", device_text(device)},
                  {"budget_bytes", budget}};
    if (least) {
      found["least_bytes"] = least_budget;
      found["least_plan"] = plan_json(*least, census.request);
    }
    found["plan"] = plan_json(*plan, census.request);
    for (const MemoryPlan& one : sweep) found["sweep"].push_back(plan_json(one, census.request));
    fmt::print("{}\n", found.dump());
  } else if (!arguments.json) {
    fmt::print("{}\n", facts);
    if (plan) print_plan(*plan, census, config);
    if (arguments.sweep) print_sweep(sweep, census);
    if (plan && least)
      fmt::print("least budget {}: {}\n", byte_text_upwards(least_budget),
                 options_of(*least, census.request));
  }
  if (!plan)
    throw OutOfMemory(text("[--budget] ", byte_text(budget), " is too small",
                           least ? text(": the least is ", byte_text_upwards(least_budget),
                                        ", with ", options_of(*least, census.request))
                                 : "",
                           "; smaller images or a smaller model need less"));
}

}  // namespace

void add_plan(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "plan", "Show where the memory of a run would go, and the least budget it trains in");
  auto arguments = std::make_shared<PlanArguments>();
  arguments->options = std::make_unique<ConfigOptions>(*command);
  command->add_flag("--sweep", arguments->sweep, "the best plan for every budget");
  command->add_option("--plot", arguments->plot, "write the same as an HTML page with a plot")
      ->option_text("FILE");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { plan_command(*arguments); });
}

}  // namespace triaccel::cli
