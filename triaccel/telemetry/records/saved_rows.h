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

/// One saved tensor and its codec, for display.
struct SavedRow {
  std::int64_t entry = 0;     // number in the census: forward order
  std::string consumer = {};  // operations that read it in backward, joined by " + "
  std::string producer = {};
  std::string shape = {};  // per sample: "16x32x32"
  std::string kind = {};
  std::string codec = {};
  std::vector<double> bits = {};  // per element and band (five, or one); empty: not quantized
  std::int64_t fp32_bytes = 0;    // per pass; see SavedStatistics::fp32_bytes
  std::int64_t bytes = 0;         // per pass, as stored
  double ratio = 0;               // compression ratio; 0: nothing is stored
  double error_share = 0;         // predicted fraction of the gradient error
  bool operator==(const SavedRow&) const = default;
};

/// Cost of a compression plan per tensor.
struct SavedCosts {
  std::span<const SavedPlan> plans = {};
  std::span<const std::int64_t> bytes = {};      // per pass
  std::span<const double> gradient_errors = {};  // contribution of each; only ratios matter
};

/// One row per tensor that is not a constant, in forward order.
std::vector<SavedRow> saved_rows(const SavedCensus& census,
                                 const std::vector<SavedStatistics>& tensors,
                                 const SavedCosts& costs, std::int64_t samples);

/// A JSON list with one row a line; a CSV table of the same columns.
std::string saved_rows_json(std::span<const SavedRow> rows);
std::string saved_rows_csv(std::span<const SavedRow> rows);

/// Bit widths of every tensor and band as a heat map, with codec, bytes and error share.
std::string svg_bit_picture(std::span<const SavedRow> rows, const std::string& title);

/// A page of its own: totals, the picture and the table.
std::string saved_page(std::span<const SavedRow> rows, const std::string& title);

/// Writes saved.json, saved.csv and saved.html to the existing `folder`. Throws StorageError.
void write_saved_files(const std::filesystem::path& folder, std::span<const SavedRow> rows,
                       const std::string& title);

}  // namespace triaccel
