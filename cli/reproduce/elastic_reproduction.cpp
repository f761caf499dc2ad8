#include "cli/reproduce/elastic_reproduction.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/reproduce/rate_grid.h"
#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"

namespace triaccel::cli {
namespace {

/// "elasticzo-2" is method "elasticzo" with two layers by backpropagation.
struct ElasticLine {
  std::string method;
  std::int64_t bp_layers = 0;
};

ElasticLine line_of(const std::string& name) {
  if (name == "bp" || name == "zo") return {name};
  const std::size_t dash = name.rfind('-');
  const std::string method = name.substr(0, dash);
  const bool known = method == "frozen" || method == "elasticzo";
  require(known && dash + 2 == name.size() && name.back() >= '1' && name.back() <= '9', "--methods",
          "unknown method '", name,
          "'; there are bp, zo, frozen-N and elasticzo-N, with N layers by backpropagation");
  return {method, name.back() - '0'};
}

std::int64_t layers_of(const std::string& model) { return model == "lenet5" ? 5 : 8; }

bool takes(const std::string& model, const std::string& data) {
  return (data == "modelnet40") == model.starts_with("pointnet");
}

/// The integer PointNet has no norms; its twin is the plain one.
bool has_format(const std::string& model, const std::string& format) {
  return format == "fp32" || model != "pointnet";
}

void choose_method(RunConfig& config, const ElasticRow& row) {
  if (row.number_format == "int8") {
    config.train.method = "elasticzo-int8";
    // What a GPU cannot do in integers (backpropagate through convolutions) the CPU does.
    if (config.device.device == "cuda") config.device.device = "auto";
    config.zeroth_order.bp_layers = row.bp_layers;
  } else if (row.method == "bp" || row.method == "zo") {
    config.train.method = row.method == "bp" ? "fp32" : "zo";
  } else {
    config.train.method = "elasticzo";
    config.zeroth_order.bp_layers = row.bp_layers;
  }
  config.zeroth_order.freeze = row.method == "frozen";
}

ElasticPlan plan_of(const ElasticReproduction& wanted, ElasticRow row) {
  ElasticPlan plan{.row = std::move(row), .config = wanted.base};
  RunConfig& config = plan.config;
  const bool tuning = plan.row.rotation != 0;
  plan.row.epochs = wanted.quick ? 1 : tuning ? wanted.tuning_epochs : wanted.epochs;
  plan.row.train_samples = tuning ? wanted.tuning_samples : wanted.base.data.train_samples;
  if (wanted.quick) plan.row.train_samples = 320;
  plan.row.timed = !wanted.shared;
  config = of_length(config, plan.row.epochs);
  config.train.seed = static_cast<std::int64_t>(plan.row.seed);
  config.train.lr = wanted.rates.front();
  config.model.name = plan.row.model;
  config.data.name = plan.row.data;
  config.data.rotation = plan.row.rotation;
  config.data.train_samples = plan.row.train_samples;
  choose_method(config, plan.row);
  return plan;
}

}  // namespace

std::string ElasticPlan::group() const {
  std::string name = fmt::format("{}-{}", row.model, row.data);
  if (row.rotation != 0) name += fmt::format("-turned{:g}", row.rotation);
  name += fmt::format("-{}-{}", row.number_format, row.method);
  if (row.method == "frozen" || row.method == "elasticzo") name += fmt::format("{}", row.bp_layers);
  return name;
}

std::string ElasticPlan::name() const { return fmt::format("{}-{}", group(), row.seed); }

std::string ElasticPlan::pretrained() const {
  ElasticPlan upright{.row = row};
  upright.row.rotation = 0;
  upright.row.method = "bp";
  return upright.name();
}

std::vector<ElasticPlan> elastic_plans(const ElasticReproduction& wanted) {
  for (const std::string& format : wanted.formats)
    require(format == "fp32" || format == "int8", "--formats", "unknown format '", format,
            "'; there are fp32 and int8");
  for (const std::string& model : wanted.models)
    require(model == "lenet5" || model == "pointnet" || model == "pointnet-plain", "--models",
            "unknown network '", model, "'; there are lenet5, pointnet and pointnet-plain");
  std::vector<ElasticPlan> training, tuning;
  const auto add = [&](std::vector<ElasticPlan>& to, ElasticRow row) {
    ElasticPlan plan = plan_of(wanted, std::move(row));
    for (const ElasticPlan& other : to)
      if (other.name() == plan.name()) return;
    to.push_back(std::move(plan));
  };
  for (const std::string& data : wanted.data)
    for (const std::string& model : wanted.models)
      for (const std::string& format : wanted.formats)
        for (const std::string& name : wanted.methods)
          for (const std::int64_t seed : wanted.seeds) {
            if (!takes(model, data) || !has_format(model, format)) continue;
            const ElasticLine line = line_of(name);
            const std::int64_t layers = layers_of(model);
            ElasticRow row{.model = model,
                           .data = data,
                           .method = line.method,
                           .number_format = format,
                           .bp_layers = line.method == "bp" ? layers : line.bp_layers,
                           .seed = static_cast<std::uint64_t>(seed)};
            if (data != "modelnet40")
              for (const double degrees : wanted.rotations) {
                ElasticRow upright = row;
                upright.method = "bp";
                upright.bp_layers = layers;
                if (!wanted.tuning_only) add(training, upright);
                ElasticRow turned = row;
                turned.rotation = degrees;
                add(tuning, turned);
              }
            if (!wanted.tuning_only) add(training, row);
          }
  training.insert(training.end(), tuning.begin(), tuning.end());
  require(!training.empty(), "--models",
          "none of the networks takes any of the data sets, or there is nothing to fine-tune");
  return training;
}

std::vector<RunConfig> elastic_candidates(const ElasticPlan& plan,
                                          const ElasticReproduction& wanted) {
  std::vector<RunConfig> all = {plan.config};
  const auto choose_from = [&](const auto& values, auto set) {
    if (values.empty()) return;
    std::vector<RunConfig> more;
    for (const RunConfig& config : all)
      for (const auto& value : values) {
        more.push_back(config);
        set(more.back(), value);
      }
    all = std::move(more);
  };
  const bool by_losses = plan.row.method == "zo" || plan.row.method == "elasticzo";
  const bool by_backprop = plan.row.method != "zo";
  if (plan.row.number_format == "fp32") {
    if (by_backprop)
      choose_from(wanted.rates, [](RunConfig& config, double rate) { config.train.lr = rate; });
    if (by_losses)
      choose_from(wanted.zo_rates,
                  [](RunConfig& config, double rate) { config.zeroth_order.lr = rate; });
  } else {
    if (by_backprop)
      choose_from(wanted.bits, [](RunConfig& config, const std::string& bits) {
        config.int8.gradient_bits = bits;
      });
    if (by_losses)
      choose_from(wanted.zo_exponents, [](RunConfig& config, const std::string& exponents) {
        config.int8.rate_exponent = exponents;
      });
  }
  return all;
}

RunConfig elastic_trial(RunConfig candidate, const ElasticReproduction& wanted) {
  constexpr std::int64_t held_out = 5000;
  const bool tuning = candidate.data.rotation != 0;
  // A few steps of fine-tuning say little: there a trial is as long as the run.
  if (!tuning && !wanted.quick) candidate = of_length(candidate, wanted.grid_epochs);
  candidate.train.seed = 1;
  candidate.data.val_split = wanted.quick                          ? 64
                             : candidate.data.name == "modelnet40" ? 984
                                                                   : held_out;
  return candidate;
}

}  // namespace triaccel::cli
