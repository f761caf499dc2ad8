#include <fmt/format.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/telemetry/console/progress_text.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/tables/compression_table.h"
#include "triaccel/telemetry/tables/table_cells.h"
#include "triaccel/telemetry/tables/table_rows.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// Without the columns in which nothing was measured.
TableCells known_columns(const TableCells& all) {
  TableCells cells{.rows = std::vector<std::vector<std::string>>(all.rows.size())};
  for (std::size_t column = 0; column < all.header.size(); ++column) {
    if (std::ranges::all_of(all.rows, [&](const auto& row) { return row[column] == "-"; }))
      continue;
    cells.header.push_back(all.header[column]);
    for (std::size_t i = 0; i < all.rows.size(); ++i) cells.rows[i].push_back(all.rows[i][column]);
  }
  return cells;
}

TableCells cells_of_group(const CompressionGroup& group) {
  TableCells cells{.header = {"codec", "held ratio", "in training", "peak ratio", "largest batch",
                              "accuracy %", "drop", "speed / FP32", "/ ActNN"}};
  for (const CompressionLine& line : group.lines)
    cells.rows.push_back({printable(line.label()), spread_cell(line.held_ratio, 2),
                          spread_cell(line.training_ratio, 2), spread_cell(line.peak_ratio, 2),
                          line.largest_batch > 0 ? fmt::format("{}", line.largest_batch) : "-",
                          spread_cell(line.accuracy, 2), spread_cell(line.accuracy_drop, 2),
                          spread_cell(line.throughput, 3), number_cell(line.actnn_throughput, 3)});
  return known_columns(cells);
}

TableCells gradients_of_group(const CompressionGroup& group) {
  TableCells cells{.header = {"gradients", "held ratio", "error²", "bias²", "cosine"}};
  for (const CompressionLine& line : group.lines)
    if (line.gradient_error.count > 0)
      cells.rows.push_back({printable(line.label()), spread_cell(line.held_ratio, 2),
                            number_cell(line.gradient_error.mean, 5),
                            number_cell(line.gradient_bias.mean, 5),
                            number_cell(line.gradient_cosine.mean, 5)});
  return cells;
}

/// The tables of a group, each as `show` makes it.
template <typename Show>
std::string tables_of_group(const CompressionGroup& group, Show&& show) {
  const TableCells gradients = gradients_of_group(group);
  return show(cells_of_group(group)) + (gradients.rows.empty() ? "" : show(gradients));
}

/// A row a network, a column a codec, for what all of them are asked for.
struct Overview {
  std::string title;
  Spread CompressionLine::*figure;
  int decimals;
};

const std::vector<Overview>& overviews() {
  static const std::vector<Overview> all = {
      {"Held bytes: how many times less than FP32", &CompressionLine::held_ratio, 2},
      {"Peak of a step: how many times less than FP32", &CompressionLine::peak_ratio, 2},
      {"Accuracy: points below FP32", &CompressionLine::accuracy_drop, 2},
      {"Throughput over FP32's", &CompressionLine::throughput, 3}};
  return all;
}

TableCells overview_cells(std::span<const CompressionGroup> groups, const Overview& overview) {
  TableCells cells{.header = {"network"}};
  std::vector<std::string> codecs;
  for (const CompressionGroup& group : groups)
    for (const CompressionLine& line : group.lines)
      if ((line.*overview.figure).count > 0 &&
          std::ranges::find(codecs, line.label()) == codecs.end())
        codecs.push_back(line.label());
  for (const std::string& codec : codecs) cells.header.push_back(printable(codec));
  const bool one_device = std::ranges::all_of(
      groups, [&](const CompressionGroup& group) { return group.device == groups.front().device; });
  for (const CompressionGroup& group : groups) {
    std::vector<std::string> row = {printable(one_device ? group.name() : group.title())};
    bool any = false;
    for (const std::string& codec : codecs) {
      const auto line = std::ranges::find(group.lines, codec, &CompressionLine::label);
      const bool known = line != group.lines.end() && ((*line).*overview.figure).count > 0;
      any = any || known;
      row.push_back(known ? spread_cell((*line).*overview.figure, overview.decimals) : "-");
    }
    if (any) cells.rows.push_back(std::move(row));
  }
  return cells;
}

std::vector<std::string> notes_of_rows(std::span<const CompressionRow> rows) {
  std::vector<std::string> notes = {
      "Held bytes are those kept between forward and backward, in the first step; ratios are over "
      "what FP32 saves with every tensor once; masks, ranges and what stays raw are counted in. "
      "Mean ± standard deviation over seeds.",
      "Peak ratio: allocated at the peak of a whole step, weights, gradients and optimizer counted "
      "in, FP32's over this one's. Largest batch: in the memory that FP32 takes for its own.",
      "error², bias², cosine: of gradients at the weights FP32 has trained, against exact ones; "
      "noise has no part in the bias, which may come out below 0.",
      "actnn, gact, division: the quantisers of these systems, written anew here; bf16: rounded."};
  std::size_t untimed = 0;
  bool tf32 = false;
  for (const CompressionRow& row : rows) {
    untimed += row.timed ? 0 : 1;
    tf32 = tf32 || row.tf32;
  }
  if (tf32) notes.push_back("FP32 products were rounded to TF32 where the device has it.");
  if (untimed > 0)
    notes.push_back(fmt::format(
        "The speed of {} run(s) that shared the machine with others is left out.", untimed));
  return notes;
}

}  // namespace

std::string compression_text(std::span<const CompressionRow> rows) {
  const std::vector<CompressionGroup> groups = compression_groups(rows);
  std::string out;
  for (const CompressionGroup& group : groups)
    out += printable(group.title()) + '\n' + tables_of_group(group, [](const TableCells& cells) {
             return aligned_table(cells) + '\n';
           });
  for (const std::string& finding : compression_findings(groups)) out += finding + '\n';
  out += '\n';
  for (const std::string& note : notes_of_rows(rows)) out += note + '\n';
  return out;
}

std::string compression_page(std::span<const CompressionRow> rows,
                             std::span<const BitPicture> pictures) {
  const std::vector<CompressionGroup> groups = compression_groups(rows);
  std::string body =
      "<section class=\"details\">" + html_list(compression_findings(groups)) + "</section>\n";
  for (const Overview& overview : overviews()) {
    const TableCells cells = overview_cells(groups, overview);
    if (!cells.rows.empty())
      body += fmt::format("<section class=\"group\"><h2>{}</h2>{}</section>\n",
                          html_escaped(overview.title), html_table(cells));
  }
  for (const CompressionGroup& group : groups)
    body += fmt::format("<section class=\"group\"><h2>{}</h2>{}</section>\n",
                        html_escaped(group.title()), tables_of_group(group, html_table));
  for (const BitPicture& picture : pictures)
    body += fmt::format(
        "<section class=\"group\"><details><summary>Where bits go: {}</summary>"
        "<section class=\"plots\">{}</section></details></section>\n",
        html_escaped(picture.title), bit_picture_figure(picture.rows, picture.title));
  body += "<section class=\"details\">" + html_list(notes_of_rows(rows)) + "</section>\n";
  std::string devices;
  for (const CompressionRow& row : rows)
    if (devices.find(row.device) == devices.npos)
      devices += (devices.empty() ? "" : " · ") + row.device;
  return html_page("FDSR: saved activations as codes, by codec", html_escaped(devices), body);
}

void write_compression_files(const fs::path& folder, std::span<const CompressionRow> rows,
                             std::span<const BitPicture> pictures) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw StorageError(text("cannot make the folder ", folder.string(), ": ", failure.message()));
  const std::vector<CompressionRow> all = record_compression_rows(folder / kResultFile, rows);
  write_atomically(folder / "fdsr.csv", compression_rows_csv(all));
  write_atomically(folder / "fdsr.txt", compression_text(all));
  write_atomically(folder / "fdsr.html", compression_page(all, pictures));
}

}  // namespace triaccel
