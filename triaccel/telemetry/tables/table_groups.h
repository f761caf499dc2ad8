#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/records/spread.h"
#include "triaccel/telemetry/tables/table_rows.h"

namespace triaccel {

/// A method, or a configuration of the ablation, over all its seeds.
struct TableLine {
  std::string method = {};
  std::string configuration = {};
  std::size_t seeds = 0;    // 0: not run
  std::size_t untimed = 0;  // of them: runs whose time and score are left out
  Spread accuracy = {};
  Spread seconds_per_epoch = {};
  Spread allocated_mb = {};
  Spread reserved_mb = {};
  Spread score = {};
  std::optional<PaperFigure> paper = {};

  const std::string& label() const { return configuration.empty() ? method : configuration; }
};

/// One network on one data set: what is compared with each other.
struct TableGroup {
  std::string model = {};
  std::string stem = {};
  std::string data = {};
  double epochs = 0;
  std::vector<TableLine> lines = {};  // the paper's in its order, then others
  std::string title() const;
};

/// The rows of one table, by network, stem, data and epochs in the order they first appear.
std::vector<TableGroup> table_groups(std::span<const TableRow> rows, PaperTable table);

/// "resnet18 on cifar10": what the paper has and `groups` lack.
std::vector<std::string> not_run(std::span<const TableGroup> groups, PaperTable table);

/// How one line differs from another: points of accuracy, per cent of the rest. NaN where a side is
/// not known.
struct Gain {
  double accuracy_points = 0;
  double seconds = 0;
  double memory = 0;  // reserved
  double score = 0;
};

struct TableGain {
  std::string of = {};
  std::string over = {};
  Gain ours = {};
  std::optional<Gain> paper = {};  // from its printed columns
};

/// Each method of ours over FP32 and over AMP; each configuration over standard training.
std::vector<TableGain> gains_of(const TableGroup& group);

}  // namespace triaccel
