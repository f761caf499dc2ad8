#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "triaccel/base/byte_size.h"
#include "triaccel/telemetry/records/appended_file.h"
#include "triaccel/telemetry/records/saved_rows.h"
#include "triaccel/telemetry/report/html_text.h"
#include "triaccel/telemetry/report/plot_frame.h"
#include "triaccel/telemetry/report/report_parts.h"
#include "triaccel/telemetry/report/svg_heat_map.h"

namespace triaccel {
namespace {

// Dimensions in pixels.
constexpr double kPictureWidth = 1140, kPictureTop = 22, kPictureRow = 13;
constexpr double kNamesEnd = 372, kCodecEnd = 470, kBandsEnd = 690, kBarsEnd = 930;
constexpr double kBandWidth = (kBandsEnd - kCodecEnd) / kFrequencyBands;
constexpr std::size_t kMostNameCharacters = 62;

/// Colour of each codec, in the order of the legend.
struct CodecColor {
  std::string_view codec;
  std::string_view label;
  int color;
};
constexpr std::array<CodecColor, 6> kCodecColors = {{{"frequency", "frequency", 3},
                                                     {"groups", "groups", 0},
                                                     {"nonzeros", "non-zeros", 2},
                                                     {"derived", "derived", 4},
                                                     {"mask", "lossless", 5},
                                                     {"raw", "raw", 6}}};

int color_of(std::string_view codec) {
  if (codec == "shape" || codec == "window" || codec == "host") codec = "mask";
  if (codec.starts_with("levelled")) codec = "groups";
  for (const CodecColor& known : kCodecColors)
    if (codec.starts_with(known.codec)) return known.color;
  return 1;  // codecs registered by other programs
}

/// 0 to 7 for one to eight bits; -1 for none.
int shade_of(double bits) {
  return bits > 0 ? std::clamp(static_cast<int>(std::lround(bits)) - 1, 0, kHeatShades - 1) : -1;
}

std::string name_of_row(const SavedRow& row) {
  const std::string producer = row.producer.substr(0, row.producer.find(' '));
  return fmt::format("{} {}{}{} {}", row.entry, row.consumer, producer.empty() ? "" : " < ",
                     producer, row.shape);
}

std::string ratio_text(double ratio) {
  return ratio > 0 ? fmt::format("{:.1f}x", ratio) : std::string("not stored");
}

std::string rectangle(double left, double top, double width, const std::string& classes) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", classes,
      left, top, width, kPictureRow - 1);
}

std::string draw_tensor(const SavedRow& row, double top, double most_bytes) {
  const double baseline = top + kPictureRow - 3.5;
  std::string bits;
  for (const double value : row.bits) bits += fmt::format(" {:.3g}", value);
  std::string out = "<g><title>" +
                    html_escaped(fmt::format(
                        "{} {} < {}, {}, {}: {}{}{}; {} of {}, {}; {:.1f} % of the error",
                        row.entry, row.consumer, row.producer, row.shape, row.kind, row.codec,
                        bits.empty() ? "" : ", bits", bits, byte_text(row.bytes),
                        byte_text(row.fp32_bytes), ratio_text(row.ratio), 100 * row.error_share)) +
                    "</title>";
  out += svg_text(kNamesEnd - 8, baseline, "tick small", "end",
                  shortened(name_of_row(row), kMostNameCharacters));
  out += rectangle(kNamesEnd, top, 8, fmt::format("cell c{}", color_of(row.codec)));
  out += svg_text(kNamesEnd + 13, baseline, "tick small", "start", row.codec);
  for (int band = 0; band < kFrequencyBands && !row.bits.empty(); ++band) {
    const double value =
        row.bits.size() == 1 ? row.bits[0] : row.bits[static_cast<std::size_t>(band)];
    const double left = kCodecEnd + kBandWidth * band;
    const int shade = shade_of(value);
    out += rectangle(left, top, kBandWidth - 1,
                     shade < 0 ? std::string("room") : fmt::format("cell h{}", shade));
  }
  const double width =
      most_bytes > 0 ? (kBarsEnd - kBandsEnd - 12) * static_cast<double>(row.bytes) / most_bytes
                     : 0;
  out += rectangle(kBandsEnd + 8, top, std::max(width, 0.5),
                   fmt::format("cell c{}", color_of(row.codec)));
  out += svg_text(kBarsEnd, baseline, "tick small", "start",
                  fmt::format("{}, {}, {:.1f} %", byte_text(row.bytes), ratio_text(row.ratio),
                              100 * row.error_share));
  return out + "</g>";
}

struct SavedTotals {
  std::int64_t fp32 = 0, held = 0;
};

SavedTotals totals_of(std::span<const SavedRow> rows) {
  SavedTotals totals;
  for (const SavedRow& row : rows) {
    totals.fp32 += row.fp32_bytes;
    totals.held += row.bytes;
  }
  return totals;
}

std::string totals_text(std::span<const SavedRow> rows) {
  const SavedTotals totals = totals_of(rows);
  return fmt::format("{} tensors · {} in FP32 · {} stored · {:.2f}x smaller", rows.size(),
                     byte_text(totals.fp32), byte_text(totals.held),
                     static_cast<double>(totals.fp32) /
                         static_cast<double>(std::max<std::int64_t>(1, totals.held)));
}

}  // namespace

std::string svg_bit_picture(std::span<const SavedRow> rows, const std::string& title) {
  if (rows.empty()) return svg_without_data(title);
  double most_bytes = 0;
  for (const SavedRow& row : rows)
    most_bytes = std::max(most_bytes, static_cast<double>(row.bytes));
  std::string out = fmt::format(
      "<svg class=\"heat\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", kPictureWidth,
      kPictureTop + kPictureRow * static_cast<double>(rows.size()) + 6, html_escaped(title));
  out += svg_text(kNamesEnd - 8, 13, "tick", "end", "consumer < producer, shape per sample");
  out += svg_text(kNamesEnd, 13, "tick", "start", "codec");
  out += svg_text(kCodecEnd, 13, "tick", "start", "lowest band");
  out += svg_text(kBandsEnd - 2, 13, "tick", "end", "highest");
  out += svg_text(kBandsEnd + 8, 13, "tick", "start", "bytes stored");
  out += svg_text(kBarsEnd, 13, "tick", "start", "ratio to FP32; error share");
  for (std::size_t i = 0; i < rows.size(); ++i)
    out += draw_tensor(rows[i], kPictureTop + kPictureRow * static_cast<double>(i), most_bytes);
  return out + "</svg>";
}

namespace {

/// What the colours mean, and the picture.
std::string bit_picture_figure(std::span<const SavedRow> rows, const std::string& title) {
  std::string legend = "<p class=\"legend\"><span>1 bit</span><span class=\"ramp\">";
  for (int i = 0; i < kHeatShades; ++i) legend += fmt::format("<i class=\"h{}\"></i>", i);
  legend +=
      "</span><span>8 bits</span><span><span class=\"swatch none\"></span>dropped</span></p>"
      "<p class=\"legend\">";
  for (const CodecColor& codec : kCodecColors)
    legend +=
        fmt::format("<span><span class=\"swatch c{}\"></span>{}</span>", codec.color, codec.label);
  return figure(title, legend + "</p>" + svg_bit_picture(rows, title), /*wide=*/true);
}

std::string table_of_rows(std::span<const SavedRow> rows) {
  std::string out = "<div class=\"scroll\"><table class=\"runs\"><thead><tr>";
  for (const char* name :
       {"tensor", "class", "codec", "bits by band", "FP32", "stored", "ratio", "error %"})
    out += fmt::format("<th>{}</th>", name);
  out += "</tr></thead><tbody>";
  for (const SavedRow& row : rows)
    out += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{:.2f}</td></tr>",
        html_escaped(name_of_row(row)), row.kind, html_escaped(row.codec), fmt::join(row.bits, " "),
        byte_text(row.fp32_bytes), byte_text(row.bytes),
        row.ratio > 0 ? fmt::format("{:.2f}", row.ratio) : "-", 100 * row.error_share);
  return out + "</tbody></table></div>";
}

}  // namespace

std::string saved_page(std::span<const SavedRow> rows, const std::string& title) {
  const std::string body = "<section class=\"plots\">" +
                           bit_picture_figure(rows, "Bit widths of saved tensors") +
                           "</section>\n<section class=\"group\"><details><summary>As a table" +
                           "</summary>" + table_of_rows(rows) + "</details></section>\n";
  return html_page(title, html_escaped(totals_text(rows)), body);
}

void write_saved_files(const std::filesystem::path& folder, std::span<const SavedRow> rows,
                       const std::string& title) {
  write_atomically(folder / "saved.json", saved_rows_json(rows));
  write_atomically(folder / "saved.csv", saved_rows_csv(rows));
  write_atomically(folder / "saved.html", saved_page(rows, title));
}

}  // namespace triaccel
