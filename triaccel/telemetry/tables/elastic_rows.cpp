#include "triaccel/telemetry/tables/elastic_rows.h"

#include <tuple>

#include "triaccel/telemetry/records/row_list.h"

namespace triaccel {
namespace {

struct ElasticFields {
  template <typename Row, typename Field>
  static void visit(Row& row, Field&& field) {
    field("model", row.model);
    field("data", row.data);
    field("rotation", row.rotation);
    field("train_samples", row.train_samples);
    field("method", row.method);
    field("number_format", row.number_format);
    field("bp_layers", row.bp_layers);
    field("seed", row.seed);
    field("epochs", row.epochs);
    field("accuracy", row.accuracy);
    field("accuracy_upright", row.accuracy_upright);
    field("accuracy_before", row.accuracy_before);
    field("peak_bytes", row.peak_bytes);
    field("predicted_bytes", row.predicted_bytes);
    field("seconds_per_epoch", row.seconds_per_epoch);
    field("timed", row.timed);
    field("batch", row.batch);
    field("learning_rate", row.learning_rate);
    field("zo_rate", row.zo_rate);
    field("device", row.device);
    field("commit", row.commit);
  }
};
using ElasticList = RowList<ElasticRow, ElasticFields>;

}  // namespace

bool same_run(const ElasticRow& a, const ElasticRow& b) {
  const auto key = [](const ElasticRow& row) {
    return std::tie(row.model, row.data, row.rotation, row.train_samples, row.method,
                    row.number_format, row.bp_layers, row.seed, row.epochs);
  };
  return key(a) == key(b);
}

std::vector<ElasticRow> read_elastic_rows(const std::filesystem::path& path) {
  return ElasticList::read(path);
}

std::vector<ElasticRow> record_elastic_rows(const std::filesystem::path& path,
                                            std::span<const ElasticRow> rows) {
  return ElasticList::record(path, rows);
}

std::string elastic_rows_json(std::span<const ElasticRow> rows) { return ElasticList::json(rows); }

std::string elastic_rows_csv(std::span<const ElasticRow> rows) { return ElasticList::csv(rows); }

}  // namespace triaccel
