#include "cli/reproduce/reproduction.h"

#include <fmt/core.h>

#include <algorithm>

#include "triaccel/base/error.h"

namespace triaccel::cli {
namespace {

/// A line of a table: the method and, in the ablation, which mechanisms it leaves on.
struct Line {
  std::string method;
  std::string configuration;
  std::string precision;
  std::string curvature;
  std::string batch;
};

std::vector<Line> lines_of(const Reproduction& wanted) {
  const RunConfig::Control& control = wanted.base.control;
  const auto full = [&](std::string configuration) {
    return Line{"triaccel", std::move(configuration), control.precision, control.curvature,
                control.batch};
  };
  if (wanted.table == PaperTable::Table2)
    return {{"fp32", "standard", "off", "off", "off"},
            {"triaccel", "dynamic-batch", "off", "off", control.batch},
            {"triaccel", "dynamic-precision", control.precision, "off", "off"},
            full("full")};
  std::vector<Line> lines;
  for (const std::string& method : wanted.methods)
    lines.push_back(method == "triaccel" ? full("") : Line{method, "", "off", "off", "off"});
  return lines;
}

RunConfig config_of(const Reproduction& wanted, const Line& line, const std::string& model,
                    const std::string& data, std::int64_t seed) {
  RunConfig config = of_length(wanted.base, wanted.epochs);
  config.model.name = model.substr(0, model.find("-cifar"));
  config.model.stem = model.ends_with("-cifar") ? "cifar" : "imagenet";
  config.data.name = data;
  config.train.method = line.method;
  config.train.seed = seed;
  config.train.batch = 96;
  config.control.precision = line.precision;
  config.control.curvature = line.curvature;
  config.control.batch = line.batch;
  if (!wanted.quick) return config;
  config.model.width = 8;
  config.data.train_samples = 768;
  config.train.control_interval = 2;
  config.control.curvature_every = 4;
  config.control.kernels = "gemm";
  return config;
}

}  // namespace

std::string PlannedRow::group() const {
  std::string name = fmt::format("{}-{}-{}-{}", name_of(row.table), row.model, row.stem, row.data);
  for (const std::string& part : {row.method, row.configuration})
    if (!part.empty()) name += "-" + part;
  return name;
}

std::string PlannedRow::name() const { return fmt::format("{}-{}", group(), row.seed); }

std::vector<PlannedRow> planned_rows(const Reproduction& wanted) {
  std::vector<PlannedRow> rows;
  for (const std::string& data : wanted.data)
    for (const std::string& model : wanted.models)
      for (const Line& line : lines_of(wanted))
        for (const std::int64_t seed : wanted.seeds) {
          PlannedRow planned{.config = config_of(wanted, line, model, data, seed)};
          planned.row = {
              .table = wanted.table,
              .model = planned.config.model.name,
              .stem = model.starts_with("resnet") ? std::string(planned.config.model.stem) : "",
              .data = data,
              .method = line.method,
              .configuration = line.configuration,
              .seed = static_cast<std::uint64_t>(seed),
              .epochs = wanted.epochs,
              .timed = !wanted.shared};
          rows.push_back(std::move(planned));
        }
  return rows;
}

}  // namespace triaccel::cli
