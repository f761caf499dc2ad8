#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "triaccel/core/saved_census.h"
#include "triaccel/core/saved_plan.h"
#include "triaccel/core/saved_statistics.h"

namespace triaccel {

/// What becomes of one saved tensor, for people.
struct SavedRow {
  std::int64_t entry = 0;     // number in the census: forward order
  std::string consumer = {};  // who reads it in backward; all of them, joined by " + "
  std::string producer = {};
  std::string shape = {};  // of a sample: "16x32x32"
  std::string kind = {};
  std::string codec = {};
  std::vector<double> bits = {};  // of an element by band: five of them, or one; none: no codes
  std::int64_t fp32_bytes = 0;    // of a pass
  std::int64_t bytes = 0;         // likewise, held
  double ratio = 0;               // of both; 0: nothing is held
  double error_share = 0;         // of what all tensors add to the gradient's error, predicted
  bool operator==(const SavedRow&) const = default;
};

/// What a plan holds and costs, by tensor.
struct SavedCosts {
  std::span<const SavedPlan> plans = {};
  std::span<const std::int64_t> bytes = {};      // of a pass
  std::span<const double> gradient_errors = {};  // what each adds; only ratios count
};

/// One row a tensor that is no constant, in forward order.
std::vector<SavedRow> saved_rows(const SavedCensus& census,
                                 const std::vector<SavedStatistics>& tensors,
                                 const SavedCosts& costs, std::int64_t samples);

/// A JSON list with one row a line; a CSV table of the same columns.
std::string saved_rows_json(std::span<const SavedRow> rows);
std::string saved_rows_csv(std::span<const SavedRow> rows);

/// Bits of every tensor and band as colour, with codec, bytes and share of the error beside.
std::string svg_bit_picture(std::span<const SavedRow> rows, const std::string& title);

/// A page of its own: totals, the picture and the table.
std::string saved_page(std::span<const SavedRow> rows, const std::string& title);

/// Writes saved.json, saved.csv and saved.html into `folder`, which is there. Throws StorageError.
void write_saved_files(const std::filesystem::path& folder, std::span<const SavedRow> rows,
                       const std::string& title);

}  // namespace triaccel
