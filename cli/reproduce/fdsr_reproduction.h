#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "triaccel/telemetry/tables/compression_rows.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel::cli {

/// What `reproduce fdsr` is asked for.
struct FdsrReproduction {
  // Network, pixels a side and batch. Those of 32 pixels are trained on the data sets; larger ones
  // are measured alone, on synthetic images.
  std::vector<std::string> rows = {
      "resnet18-cifar@32/128", "resnet18@32/128",    "efficientnet-b0@32/128", "resnet50@224/256",
      "vgg16-bn@224/32",       "densenet121@224/32", "efficientnet-b0@224/32", "vit-small@224/32"};
  std::vector<std::string> data = {"cifar10"};
  std::vector<std::string> codecs = {"fp32", "amp",   "fdsr",     "lossless",
                                     "bf16", "actnn", "division", "gact"};
  std::vector<std::string> trained = {"fp32", "fdsr"};  // of them: those whose accuracy counts
  std::vector<std::int64_t> seeds = {1, 2};
  double epochs = 0;
  std::int64_t timings = 10;
  std::int64_t draws = 16;      // of offsets, for the quality of gradients
  bool largest_batches = true;  // seek the largest batch in FP32's memory
  bool quick = false;           // slim networks, few samples: whether everything works
  bool shared = false;          // other work runs on the machine: times do not count
  std::filesystem::path out = {};
  RunConfig base = {};  // data root, device, learning rate and what else every row shares
};

/// One row of the table: how it is named and how it is configured.
struct FdsrPlan {
  CompressionRow row = {};  // what names it is filled in
  RunConfig config = {};
  bool trained = false;
  std::string group() const;    // its name without codec and seed
  std::string picture() const;  // its name without the seed
  std::string name() const;     // of its folder
};

/// Every row, FP32's before those that are measured against it. Throws UsageError for names it does
/// not know.
std::vector<FdsrPlan> fdsr_plans(const FdsrReproduction& wanted);

}  // namespace triaccel::cli
