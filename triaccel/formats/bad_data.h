#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triaccel/base/error.h"

namespace triaccel {

/// What a reader does with a record it cannot use.
enum class BadData {
  Fail,    // the first defect is a DataError
  Skip,    // bad records are dropped; a DataError when they are too many or a whole file is bad
  Report,  // never an error: the good records, possibly none, and the list of every defect
};

/// Converts from BadData, so that read_cifar10(folder, BadData::Skip) reads as it should.
struct BadDataRule {
  BadDataRule(BadData mode_ = BadData::Fail, double max_share_ = 0.001)
      : mode(mode_), max_share(max_share_) {}
  BadData mode;
  double max_share;  // Skip gives up when a larger share of a split's records is bad
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
  FurtherDefects,
};

/// "label out of range"
std::string_view defect_name(Defect defect);

/// One defect, where it is and what was found there.
struct Finding {
  std::string file = {};
  std::int64_t record = -1;  // index in the file; -1: the file as a whole
  Defect defect = Defect::Unreadable;
  std::string detail = {};
  bool operator==(const Finding&) const = default;
};

/// "data_batch_3.bin: record 17: label out of range: 12, the largest is 9"
std::string finding_text(const Finding& finding);

/// A DataError that says which defect it is.
struct DefectError : DataError {
  explicit DefectError(Finding what);
  Finding finding;
};

/// Where parsers hand in what they find; applies the rule.
class DefectLog {
 public:
  explicit DefectLog(BadDataRule rule = {}) : rule_(rule) {}

  /// Throws DefectError under Fail, and under Skip for a defect that no dropped record mends.
  void add(Finding finding);
  void add(std::string_view file, std::int64_t record, Defect defect, std::string detail) {
    add(Finding{std::string(file), record, defect, std::move(detail)});
  }

  /// Throws under Skip when more than the allowed share of the split's records was lost.
  void close_split(std::string_view split, std::int64_t expected, std::int64_t kept) const;

  std::vector<Finding> take();

 private:
  BadDataRule rule_;
  std::vector<Finding> findings_ = {};
  std::int64_t unlisted_ = 0;
};

/// Adds EmptySplit, or MissingClass for each class in [0, classes) that no label names.
void check_classes(std::span<const std::uint8_t> labels, std::int64_t classes,
                   std::string_view file, DefectLog& log);

}  // namespace triaccel
