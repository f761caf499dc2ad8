#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "triaccel/telemetry/records/saved_rows.h"
#include "triaccel/telemetry/records/spread.h"
#include "triaccel/telemetry/tables/compression_rows.h"

namespace triaccel {

/// One codec on one network, over seeds.
struct CompressionLine {
  std::string codec = {};
  double target_ratio = CompressionRow::kNot;  // of fdsr: what it was asked for
  Spread held_ratio = {}, training_ratio = {}, peak_ratio = {};
  Spread accuracy = {}, accuracy_drop = {};
  Spread throughput = {};                          // over FP32's
  double actnn_throughput = CompressionRow::kNot;  // over that of ActNN's codec
  Spread gradient_error = {}, gradient_bias = {}, gradient_cosine = {};
  std::int64_t largest_batch = 0;
  std::string label() const;  // "fdsr, target 10.2x"
};

/// What is compared with each other: one network at one image size and batch, on one data set, for
/// as many epochs, on one device.
struct CompressionGroup {
  std::string model = {};
  std::int64_t image_size = 0, batch = 0;
  std::string data = {};
  double epochs = 0;
  std::string device = {};
  std::vector<CompressionLine> lines = {};  // ours, FP32 and AMP, then other systems' codecs
  std::string name() const;                 // what it is of, without the device
  std::string title() const;                // with it
};

std::vector<CompressionGroup> compression_groups(std::span<const CompressionRow> rows);

/// Codecs of other systems, which ours is compared with.
bool is_other_system(std::string_view codec);

/// What the groups say about the abstract's claims, one sentence each with the abstract's own
/// figure behind it: mean ratio, against the best other codec, mean drop of accuracy, speed.
std::vector<std::string> compression_findings(std::span<const CompressionGroup> groups);

/// Where bits go in one network.
struct BitPicture {
  std::string title = {};
  std::vector<SavedRow> rows = {};
};

/// The whole comparison for a terminal, and as one HTML file.
std::string compression_text(std::span<const CompressionRow> rows);
std::string compression_page(std::span<const CompressionRow> rows,
                             std::span<const BitPicture> pictures);

/// Writes into `folder`, which is made where it is missing: result.json (rows already in it stay,
/// those of the same run are replaced), fdsr.csv, fdsr.txt and fdsr.html. Throws StorageError.
void write_compression_files(const std::filesystem::path& folder,
                             std::span<const CompressionRow> rows,
                             std::span<const BitPicture> pictures);

}  // namespace triaccel
