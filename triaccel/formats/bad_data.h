#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {

/// How a reader handles bad records.
enum class BadData {
  Fail,    // the first defect throws DataError
  Skip,    // drops bad records; DataError if there are too many or a whole file is bad
  Report,  // never throws: returns the good records, possibly none, and all defects
};

/// Converts from BadData, so that read_cifar10(folder, BadData::Skip) reads as it should.
struct BadDataRule {
  BadDataRule(BadData mode_ = BadData::Fail, double max_share_ = 0.001)
      : mode(mode_), max_share(max_share_) {}
  BadData mode;
  double max_share;  // maximum fraction of bad records per split for Skip
};

enum class Defect {
  MissingFile,
  Unreadable,
  EmptyFile,
  FileTooLarge,
  BadGzip,
  TruncatedGzip,
  GzipTooLarge,
  TrailingBytes,
  WrongMagic,
  TruncatedHeader,
  WrongElementType,
  WrongDimensions,
  CountTooLarge,
  TruncatedRecord,
  MissingRecords,
  CountMismatch,
  LabelOutOfRange,
  CoarseLabelOutOfRange,
  CoordinateOutOfRange,
  DegenerateShape,
  BadClassName,
  BinaryByte,
  MissingClass,
  EmptySplit,
  BrokenImage,
  SymlinkLoop,
  NotFinite,
  FurtherDefects,
};

/// "label out of range"
std::string_view defect_name(Defect defect);

/// One defect, its location and details.
struct Finding {
  std::string file = {};
  std::int64_t record = -1;  // index in the file; -1: the whole file
  Defect defect = Defect::Unreadable;
  std::string detail = {};
  bool operator==(const Finding&) const = default;
};

/// "data_batch_3.bin: record 17: label out of range: 12, the largest is 9"
std::string finding_text(const Finding& finding);

/// A DataError with the kind of defect.
struct DefectError : DataError {
  explicit DefectError(Finding what);
  Finding finding;
};

/// Collects the defects found by parsers and applies the rule.
class DefectLog {
 public:
  explicit DefectLog(BadDataRule rule = {}) : rule_(rule) {}

  /// Throws DefectError under Fail, and under Skip for defects that dropping records cannot fix.
  void add(Finding finding);
  void add(std::string_view file, std::int64_t record, Defect defect, std::string detail) {
    add(Finding{std::string(file), record, defect, std::move(detail)});
  }

  /// Throws under Skip if more than the allowed fraction of the split was dropped; `remedy` is what
  /// the message tells the user to do.
  void close_split(std::string_view split, std::int64_t expected, std::int64_t kept,
                   std::string_view remedy = "download the data again") const;

  std::vector<Finding> take();

 private:
  BadDataRule rule_;
  std::vector<Finding> findings_ = {};
  std::int64_t unlisted_ = 0;
};

/// Adds EmptySplit, or MissingClass for each class in [0, classes) without labels.
void check_classes(std::span<const std::uint8_t> labels, std::int64_t classes,
                   std::string_view file, DefectLog& log);

}  // namespace triaccel
