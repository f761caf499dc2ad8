#include "triaccel/formats/bad_data.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <string>
#include <utility>

namespace triaccel {
namespace {

// Limits the list: a malicious file may contain only bad records.
constexpr std::size_t kMaxFindings = 10'000;

// Whether the set stays usable after dropping bad records or ignoring trailing bytes.
bool mended_by_dropping(Defect defect) {
  using enum Defect;
  constexpr std::array kMended = {
      TrailingBytes,         TruncatedRecord,      MissingRecords,  LabelOutOfRange,
      CoarseLabelOutOfRange, CoordinateOutOfRange, DegenerateShape, BinaryByte,
      BrokenImage,           SymlinkLoop,          NotFinite,       FurtherDefects};
  return std::ranges::find(kMended, defect) != kMended.end();
}

}  // namespace

std::string_view defect_name(Defect defect) {
  constexpr std::string_view kNames[] = {"missing file",
                                         "unreadable file",
                                         "empty file",
                                         "file too large",
                                         "damaged gzip",
                                         "truncated gzip",
                                         "gzip expands beyond the size limit",
                                         "trailing bytes",
                                         "wrong magic",
                                         "truncated header",
                                         "wrong element type",
                                         "wrong dimensions",
                                         "count too large",
                                         "truncated record",
                                         "missing records",
                                         "counts differ",
                                         "label out of range",
                                         "coarse label out of range",
                                         "coordinate out of range",
                                         "all points are identical",
                                         "bad class name",
                                         "binary byte in a text file",
                                         "class missing",
                                         "empty split",
                                         "broken image",
                                         "symbolic link in a circle",
                                         "value that is not finite",
                                         "more defects"};
  return kNames[static_cast<std::size_t>(defect)];
}

std::string finding_text(const Finding& finding) {
  std::string line = finding.file;
  if (finding.record >= 0) line += text(": record ", finding.record);
  line += text(": ", defect_name(finding.defect));
  if (!finding.detail.empty()) line += text(": ", finding.detail);
  return line;
}

DefectError::DefectError(Finding what) : DataError(finding_text(what)), finding(std::move(what)) {}

void DefectLog::add(Finding finding) {
  const bool fatal = rule_.mode == BadData::Fail ||
                     (rule_.mode == BadData::Skip && !mended_by_dropping(finding.defect));
  if (fatal) throw DefectError(std::move(finding));
  if (findings_.size() < kMaxFindings)
    findings_.push_back(std::move(finding));
  else
    ++unlisted_;
}

void DefectLog::close_split(std::string_view split, std::int64_t expected, std::int64_t kept,
                            std::string_view remedy) const {
  const std::int64_t lost = expected - kept;
  if (rule_.mode != BadData::Skip || lost <= 0) return;
  if (static_cast<double>(lost) <= rule_.max_share * static_cast<double>(expected)) return;
  std::string message = text(
      split, ": ", lost, " of ", expected, " records are bad, more than the allowed fraction of ",
      rule_.max_share, "; ", remedy, ", or list all defects with --bad-data report");
  constexpr std::size_t shown = 5;
  for (std::size_t i = 0; i < findings_.size() && i < shown; ++i)
    message += text("\n  ", finding_text(findings_[i]));
  if (findings_.size() > shown) message += "\n  ...";
  throw DataError(message);
}

std::vector<Finding> DefectLog::take() {
  if (unlisted_ > 0)
    findings_.push_back({.file = findings_.back().file,
                         .record = -1,
                         .defect = Defect::FurtherDefects,
                         .detail = text(unlisted_, " more, not listed")});
  unlisted_ = 0;
  return std::exchange(findings_, {});
}

void check_classes(std::span<const std::uint8_t> labels, std::int64_t classes,
                   std::string_view file, DefectLog& log) {
  if (labels.empty()) {
    log.add(file, -1, Defect::EmptySplit, "no usable record; download the data again");
    return;
  }
  std::bitset<256> seen;
  for (const std::uint8_t label : labels) seen.set(label);
  for (std::int64_t c = 0; c < classes; ++c)
    if (!seen.test(static_cast<std::size_t>(c)))
      log.add(file, -1, Defect::MissingClass, text("no record of class ", c, " of ", classes));
}

}  // namespace triaccel
