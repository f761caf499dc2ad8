#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace triaccel {

/// One run of the comparison of ElasticZO with zeroth order and backpropagation. Accuracies are per
/// cent on the test set; memory is without the data set.
struct ElasticRow {
  std::string model = {};
  std::string data = {};
  double rotation = 0;             // degrees; other than 0: fine-tuning, from upright images
  std::int64_t train_samples = 0;  // 0: all
  std::string method = {};         // bp, zo, frozen or elasticzo
  std::string number_format = {};  // fp32 or int8
  std::int64_t bp_layers = 0;
  std::uint64_t seed = 0;
  double epochs = 0;
  double accuracy = 0;
  double accuracy_upright = std::numeric_limits<double>::quiet_NaN();  // of the first weights
  double accuracy_before = std::numeric_limits<double>::quiet_NaN();   // the same, turned
  std::int64_t peak_bytes = 0;
  std::int64_t predicted_bytes = 0;  // step_bytes.h, by liveness; 0: not predicted
  double seconds_per_epoch = 0;
  bool timed = true;  // the run had the machine to itself: only then its time counts
  std::int64_t batch = 0;
  double learning_rate = 0;  // of backpropagated layers in FP32
  double zo_rate = 0;        // of the others, likewise
  std::string device = {};
  std::string commit = {};
  bool operator==(const ElasticRow&) const = default;
};

/// Whether two rows are of the same run to be: equal in all that comes before `accuracy`.
bool same_run(const ElasticRow& a, const ElasticRow& b);

/// Reads a list of rows as result.json holds it; none when there is no such file. Throws
/// StorageError naming file and row.
std::vector<ElasticRow> read_elastic_rows(const std::filesystem::path& path);

/// Puts rows into the file, those of the same run in their place, all or nothing, and answers with
/// all it then holds. Processes that record into one folder wait for each other.
std::vector<ElasticRow> record_elastic_rows(const std::filesystem::path& path,
                                            std::span<const ElasticRow> rows);

/// A JSON list with one row a line; a CSV table of the same columns.
std::string elastic_rows_json(std::span<const ElasticRow> rows);
std::string elastic_rows_csv(std::span<const ElasticRow> rows);

}  // namespace triaccel
