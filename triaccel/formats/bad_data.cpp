#include "triaccel/formats/bad_data.h"

#include <bitset>
#include <string>
#include <utility>

namespace triaccel {
namespace {

// Limits the list: a malicious file may contain only bad records.
constexpr std::size_t kMaxFindings = 10'000;

// Whether the set stays usable after dropping bad records or ignoring trailing bytes.
bool mended_by_dropping(Defect defect) {
  switch (defect) {
    case Defect::TrailingBytes:
    case Defect::TruncatedRecord:
    case Defect::MissingRecords:
    case Defect::LabelOutOfRange:
    case Defect::CoarseLabelOutOfRange:
    case Defect::CoordinateOutOfRange:
    case Defect::DegenerateShape:
    case Defect::BinaryByte:
    case Defect::FurtherDefects:
      return true;
    case Defect::MissingFile:
    case Defect::Unreadable:
    case Defect::EmptyFile:
    case Defect::FileTooLarge:
    case Defect::BadGzip:
    case Defect::TruncatedGzip:
    case Defect::GzipTooLarge:
    case Defect::WrongMagic:
    case Defect::TruncatedHeader:
    case Defect::WrongElementType:
    case Defect::WrongDimensions:
    case Defect::CountTooLarge:
    case Defect::CountMismatch:
    case Defect::BadClassName:
    case Defect::MissingClass:
    case Defect::EmptySplit:
      return false;
  }
  return false;
}

}  // namespace

std::string_view defect_name(Defect defect) {
  switch (defect) {
    case Defect::MissingFile:
      return "missing file";
    case Defect::Unreadable:
      return "unreadable file";
    case Defect::EmptyFile:
      return "empty file";
    case Defect::FileTooLarge:
      return "file too large";
    case Defect::BadGzip:
      return "damaged gzip";
    case Defect::TruncatedGzip:
      return "truncated gzip";
    case Defect::GzipTooLarge:
      return "gzip expands beyond the size limit";
    case Defect::TrailingBytes:
      return "trailing bytes";
    case Defect::WrongMagic:
      return "wrong magic";
    case Defect::TruncatedHeader:
      return "truncated header";
    case Defect::WrongElementType:
      return "wrong element type";
    case Defect::WrongDimensions:
      return "wrong dimensions";
    case Defect::CountTooLarge:
      return "count too large";
    case Defect::TruncatedRecord:
      return "truncated record";
    case Defect::MissingRecords:
      return "missing records";
    case Defect::CountMismatch:
      return "counts differ";
    case Defect::LabelOutOfRange:
      return "label out of range";
    case Defect::CoarseLabelOutOfRange:
      return "coarse label out of range";
    case Defect::CoordinateOutOfRange:
      return "coordinate out of range";
    case Defect::DegenerateShape:
      return "all points are identical";
    case Defect::BadClassName:
      return "bad class name";
    case Defect::BinaryByte:
      return "binary byte in a text file";
    case Defect::MissingClass:
      return "class missing";
    case Defect::EmptySplit:
      return "empty split";
    case Defect::FurtherDefects:
      return "more defects";
  }
  return "";
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

void DefectLog::close_split(std::string_view split, std::int64_t expected,
                            std::int64_t kept) const {
  const std::int64_t lost = expected - kept;
  if (rule_.mode != BadData::Skip || lost <= 0) return;
  if (static_cast<double>(lost) <= rule_.max_share * static_cast<double>(expected)) return;
  std::string message = text(
      split, ": ", lost, " of ", expected, " records are bad, more than the allowed fraction of ",
      rule_.max_share, "; download the data again, or list all defects with --bad-data report");
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
