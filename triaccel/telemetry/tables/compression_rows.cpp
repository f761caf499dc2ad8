#include "triaccel/telemetry/tables/compression_rows.h"

#include <cmath>
#include <tuple>

#include "triaccel/telemetry/records/row_list.h"

namespace triaccel {
namespace {

struct CompressionFields {
  template <typename Row, typename Field>
  static void visit(Row& row, Field&& field) {
    field("model", row.model);
    field("image_size", row.image_size);
    field("batch", row.batch);
    field("codec", row.codec);
    field("held_ratio", row.held_ratio);
    field("peak_ratio", row.peak_ratio);
    field("accuracy", row.accuracy);
    field("accuracy_drop", row.accuracy_drop);
    field("throughput_ratio_to_fp32", row.throughput_ratio_to_fp32);
    field("commit", row.commit);
    field("data", row.data);
    field("epochs", row.epochs);
    field("seed", row.seed);
    field("target_ratio", row.target_ratio);
    field("training_ratio", row.training_ratio);
    field("held_bytes", row.held_bytes);
    field("fp32_bytes", row.fp32_bytes);
    field("passed_bytes", row.passed_bytes);
    field("peak_bytes", row.peak_bytes);
    field("budget_bytes", row.budget_bytes);
    field("largest_batch", row.largest_batch);
    field("samples_per_second", row.samples_per_second);
    field("timed", row.timed);
    field("gradient_error", row.gradient_error);
    field("gradient_bias", row.gradient_bias);
    field("gradient_cosine", row.gradient_cosine);
    field("tf32", row.tf32);
    field("device", row.device);
  }
};
using CompressionList = RowList<CompressionRow, CompressionFields>;

}  // namespace

bool same_run(const CompressionRow& a, const CompressionRow& b) {
  const auto key = [](const CompressionRow& row) {
    return std::tie(row.model, row.image_size, row.batch, row.codec, row.data, row.epochs, row.seed,
                    row.device);
  };
  const bool same_target = a.target_ratio == b.target_ratio ||
                           (std::isnan(a.target_ratio) && std::isnan(b.target_ratio));
  return key(a) == key(b) && same_target;
}

std::vector<CompressionRow> read_compression_rows(const std::filesystem::path& path) {
  return CompressionList::read(path);
}

std::vector<CompressionRow> record_compression_rows(const std::filesystem::path& path,
                                                    std::span<const CompressionRow> rows) {
  return CompressionList::record(path, rows);
}

std::string compression_rows_json(std::span<const CompressionRow> rows) {
  return CompressionList::json(rows);
}

std::string compression_rows_csv(std::span<const CompressionRow> rows) {
  return CompressionList::csv(rows);
}

}  // namespace triaccel
