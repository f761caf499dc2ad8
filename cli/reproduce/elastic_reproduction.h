#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/telemetry/tables/elastic_rows.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// What `reproduce elasticzo` is asked for.
struct ElasticReproduction {
  std::vector<std::string> data = {"mnist", "fashion-mnist"};  // modelnet40 wants a GPU
  std::vector<std::string> models = {"lenet5", "pointnet-plain"};
  std::vector<std::string> methods = {"bp",          "zo",       "frozen-1",
                                      "elasticzo-1", "frozen-2", "elasticzo-2"};
  std::vector<std::string> formats = {"fp32", "int8"};
  std::vector<std::int64_t> seeds = {1, 2, 3};
  double epochs = 8;
  std::vector<double> rotations = {30, 45};  // fine-tuning of what bp trained on upright images
  std::int64_t tuning_samples = 1000;
  double tuning_epochs = 50;
  // To choose from on held-out samples; one of each or none: no choice.
  std::vector<double> rates = {0.01};  // FP32: of backpropagated layers
  std::vector<double> zo_rates = {};   // FP32: of the others; none: their default
  std::vector<std::string> bits = {};  // INT8: of backpropagated layers, "4-1"; none: the recipe's
  std::vector<std::string> zo_exponents = {};  // INT8: of the others, "3-6"; none: the recipe's
  double grid_epochs = 2;
  bool quick = false;   // few samples, one epoch: whether everything works, in a minute
  bool shared = false;  // other work runs on the machine: times do not count
  // Several commands may share the work, each with rows or trials of its own in the same folder:
  std::int64_t trial = 0;    // train this one of each row's candidates, from 1, and nothing else
  bool tuning_only = false;  // only fine-tune; what it starts from is another command's
  std::filesystem::path out = {};
  RunConfig base = {};  // data root, device and what else every row shares
};

/// One run: how its row is named and how it is configured.
struct ElasticPlan {
  ElasticRow row = {};
  RunConfig config = {};
  std::string group() const;       // its name without the seed
  std::string name() const;        // of its folder
  std::string pretrained() const;  // name of the run whose weights fine-tuning starts from
};

/// Every run, in the order in which they must be made: what is fine-tuned after what it starts
/// from. Throws UsageError for names it does not know.
std::vector<ElasticPlan> elastic_plans(const ElasticReproduction& wanted);

/// The settings a run may choose from; one where there is nothing to choose.
std::vector<RunConfig> elastic_candidates(const ElasticPlan& plan,
                                          const ElasticReproduction& wanted);

/// A short run of a candidate that leaves samples out to be judged by.
RunConfig elastic_trial(RunConfig candidate, const ElasticReproduction& wanted);

}  // namespace triaccel::cli
