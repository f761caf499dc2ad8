#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace triaccel {

/// One network with one codec: what it holds, how fast it is and how well it learns. What was not
/// measured is NaN or 0.
struct CompressionRow {
  static constexpr double kNot = std::numeric_limits<double>::quiet_NaN();

  std::string model = {};
  std::int64_t image_size = 0;  // pixels a side
  std::int64_t batch = 0;
  std::string codec = {};       // fdsr, lossless, fp32, amp, bf16, actnn, division, gact
  double held_ratio = kNot;     // bytes FP32 saves, each tensor once, over bytes held, at first
  double peak_ratio = kNot;     // of a whole step, the data set left out: FP32's over this one's
  double accuracy = kNot;       // per cent, on the test set
  double accuracy_drop = kNot;  // points below FP32 at the same seed
  double throughput_ratio_to_fp32 = kNot;
  std::string commit = {};

  std::string data = {};
  double epochs = 0;
  std::uint64_t seed = 0;
  double target_ratio = kNot;     // what was asked for
  double training_ratio = kNot;   // held_ratio over a whole run, in which accuracy may lower it
  std::int64_t held_bytes = 0;    // after a forward pass
  std::int64_t fp32_bytes = 0;    // what held_ratio is over
  std::int64_t passed_bytes = 0;  // the same with every tensor as often as it was saved
  std::int64_t peak_bytes = 0;
  std::int64_t budget_bytes = 0;  // that the largest batch was sought in
  std::int64_t largest_batch = 0;
  double samples_per_second = kNot;
  bool timed = true;             // the run had the machine to itself: only then its time counts
  double gradient_error = kNot;  // squared, relative, on a fixed checkpoint
  double gradient_bias = kNot;   // squared, relative
  double gradient_cosine = kNot;
  bool tf32 = false;  // FP32 products may have been rounded to it
  std::string device = {};
  bool operator==(const CompressionRow&) const = default;
};

/// Whether two rows are of the same measurement to be: model, image size, batch, codec, data,
/// epochs, seed, target and device.
bool same_run(const CompressionRow& a, const CompressionRow& b);

/// Reads a list of rows as result.json holds it; none when there is no such file. Throws
/// StorageError naming file and row.
std::vector<CompressionRow> read_compression_rows(const std::filesystem::path& path);

/// Puts rows into the file, those of the same run in their place, all or nothing, and answers with
/// all it then holds. Processes that record into one folder wait for each other.
std::vector<CompressionRow> record_compression_rows(const std::filesystem::path& path,
                                                    std::span<const CompressionRow> rows);

/// A JSON list with one row a line; a CSV table of the same columns.
std::string compression_rows_json(std::span<const CompressionRow> rows);
std::string compression_rows_csv(std::span<const CompressionRow> rows);

}  // namespace triaccel
