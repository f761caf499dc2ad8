#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/records/spread.h"
#include "triaccel/telemetry/tables/elastic_rows.h"

namespace triaccel {

/// A method in one number format, over its seeds.
struct ElasticCell {
  std::size_t seeds = 0;  // 0: not run
  Spread accuracy = {};
  Spread before = {};   // of the weights fine-tuning starts from, on the turned images
  Spread upright = {};  // and on upright ones
  Spread megabytes = {};
  Spread seconds_per_epoch = {};
};

/// A method with so many layers by backpropagation, in both number formats.
struct ElasticLine {
  std::string method = {};
  std::int64_t bp_layers = 0;
  ElasticCell fp32 = {}, int8 = {};
  std::string label() const;  // "elasticzo, 2 BP layers"
};

/// What is compared with each other: one network on one data set, for the same length.
struct ElasticGroup {
  std::string model = {};
  std::string data = {};
  double rotation = 0;
  std::int64_t train_samples = 0;
  double epochs = 0;
  std::vector<ElasticLine> lines = {};  // zo, one BP layer, two, …, bp
  std::string title() const;
};

std::vector<ElasticGroup> elastic_groups(std::span<const ElasticRow> rows);

/// What the group says about the claims of ElasticZO's abstract, one sentence each with the
/// abstract's range behind it: over zeroth order, over the frozen control, below backpropagation,
/// integers against FP32, what fine-tuning won back.
std::vector<std::string> elastic_findings(const ElasticGroup& group);

/// The whole comparison for a terminal, and as one HTML file.
std::string elastic_text(std::span<const ElasticRow> rows);
std::string elastic_page(std::span<const ElasticRow> rows);

/// Writes into `folder`, which is made where it is missing: result.json (rows already in it stay,
/// those of the same run are replaced), elasticzo.csv, elasticzo.txt and elasticzo.html. Throws
/// StorageError.
void write_elastic_files(const std::filesystem::path& folder, std::span<const ElasticRow> rows);

}  // namespace triaccel
