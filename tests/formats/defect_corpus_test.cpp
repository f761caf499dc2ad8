#include <gtest/gtest.h>

#include <functional>

#include "tests/formats/sample_files.h"
#include "triaccel/formats/cifar.h"
#include "triaccel/formats/data_root.h"
#include "triaccel/formats/idx.h"
#include "triaccel/formats/point_cloud.h"
#include "triaccel/formats/text_corpus.h"

// A corpus of broken data sets: each is a good set with one defect, which must be named with its
// file and its record.
namespace triaccel {
namespace {

using test::append_word;
using test::Bytes;
using test::bytes_of;
using test::cifar_records;
using test::gzip_of;
using test::idx_images;
using test::idx_labels;
using test::point_clouds;
using test::point_labels;
using test::TestFolder;

enum class Kind { Idx, Cifar10, Cifar100, Points, Text };

struct BrokenSet {
  Kind kind;
  std::string file;  // that the finding must name
  std::int64_t record;
  Defect defect;
  std::function<void(const TestFolder&)> damage;
};

const std::string kImages = "train-images-idx3-ubyte", kLabels = "train-labels-idx1-ubyte";
const CifarLayout kTen = test::small_layout(cifar10_layout());
const CifarLayout kHundred = test::small_layout(cifar100_layout());

Bytes changed(Bytes bytes, std::size_t at, std::uint8_t value) {
  bytes.at(at) = std::byte{value};
  return bytes;
}

Bytes shorter(Bytes bytes, std::ptrdiff_t by) {
  bytes.erase(bytes.end() - by, bytes.end());
  return bytes;
}

Bytes longer(Bytes bytes, std::size_t by) {
  bytes.insert(bytes.end(), by, std::byte{0});
  return bytes;
}

Bytes words(std::initializer_list<std::uint32_t> values) {
  Bytes bytes;
  for (const std::uint32_t value : values) append_word(bytes, value);
  return bytes;
}

std::function<void(const TestFolder&)> holds(const std::string& file, const Bytes& bytes) {
  return [=](const TestFolder& folder) { folder.write(file, bytes); };
}

std::function<void(const TestFolder&)> lacks(const std::string& file) {
  return [=](const TestFolder& folder) { std::filesystem::remove(folder.path() / file); };
}

// `file` replaced by `file`.gz
std::function<void(const TestFolder&)> packed(const std::string& file, const Bytes& bytes) {
  return [=](const TestFolder& folder) {
    std::filesystem::remove(folder.path() / file);
    folder.write(file + ".gz", bytes);
  };
}

std::vector<BrokenSet> broken_idx_sets() {
  const Bytes images = idx_images(20), labels = idx_labels(20), gzip = gzip_of(labels);
  const auto directory = [](const TestFolder& folder) {
    lacks(kImages)(folder);
    std::filesystem::create_directory(folder.path() / kImages);
  };
  const auto sparse = [](const TestFolder& folder) {
    std::filesystem::resize_file(folder.path() / kImages, std::uintmax_t{1} << 30);
  };
  const auto empty_test_split = [](const TestFolder& folder) {
    folder.write("t10k-images-idx3-ubyte", idx_images(0));
    folder.write("t10k-labels-idx1-ubyte", idx_labels(0));
  };
  const Bytes without_a_three = changed(changed(labels, 8 + 3, 0), 8 + 13, 0);
  using D = Defect;
  return {
      {Kind::Idx, kImages, -1, D::MissingFile, lacks(kImages)},
      {Kind::Idx, kLabels, -1, D::MissingFile, lacks(kLabels)},
      {Kind::Idx, kImages, -1, D::Unreadable, directory},
      {Kind::Idx, kImages, -1, D::EmptyFile, holds(kImages, {})},
      {Kind::Idx, kImages, -1, D::FileTooLarge, sparse},
      {Kind::Idx, kLabels + ".gz", -1, D::BadGzip, packed(kLabels, labels)},
      {Kind::Idx, kLabels + ".gz", -1, D::BadGzip,
       packed(kLabels, changed(gzip, gzip.size() - 6, 0x55))},
      {Kind::Idx, kLabels + ".gz", -1, D::TruncatedGzip, packed(kLabels, shorter(gzip, 3))},
      {Kind::Idx, kLabels + ".gz", -1, D::GzipTooLarge, packed(kLabels, gzip_of(Bytes(2 << 20)))},
      {Kind::Idx, kLabels + ".gz", -1, D::TrailingBytes, packed(kLabels, longer(gzip, 5))},
      {Kind::Idx, kLabels, -1, D::WrongMagic, holds(kLabels, gzip)},
      {Kind::Idx, kImages, -1, D::WrongMagic, holds(kImages, changed(images, 0, 'P'))},
      {Kind::Idx, kImages, -1, D::WrongElementType, holds(kImages, changed(images, 2, 0x0d))},
      {Kind::Idx, kImages, -1, D::WrongDimensions, holds(kImages, labels)},
      {Kind::Idx, kLabels, -1, D::WrongDimensions, holds(kLabels, images)},
      {Kind::Idx, kImages, -1, D::TruncatedHeader, holds(kImages, shorter(idx_images(0), 1))},
      {Kind::Idx, kLabels, -1, D::TruncatedHeader, holds(kLabels, bytes_of("x"))},
      {Kind::Idx, kImages, -1, D::WrongDimensions, holds(kImages, idx_images(20, 32, 32))},
      {Kind::Idx, kImages, -1, D::WrongDimensions, holds(kImages, words({0x803, 20, 0, 28}))},
      {Kind::Idx, kImages, -1, D::CountTooLarge, holds(kImages, words({0x803, ~0u, 4096, 4096}))},
      {Kind::Idx, kLabels, -1, D::CountTooLarge, holds(kLabels, words({0x801, ~0u}))},
      {Kind::Idx, kImages, 19, D::TruncatedRecord, holds(kImages, shorter(images, 1))},
      {Kind::Idx, kImages, 15, D::MissingRecords, holds(kImages, shorter(images, 5 * 784))},
      {Kind::Idx, kLabels, 19, D::MissingRecords, holds(kLabels, shorter(labels, 1))},
      {Kind::Idx, kImages, -1, D::TrailingBytes, holds(kImages, longer(images, 1))},
      {Kind::Idx, kLabels, -1, D::CountMismatch, holds(kLabels, idx_labels(19))},
      {Kind::Idx, kLabels, 7, D::LabelOutOfRange, holds(kLabels, changed(labels, 8 + 7, 10))},
      {Kind::Idx, kLabels, -1, D::MissingClass, holds(kLabels, without_a_three)},
      {Kind::Idx, "t10k-labels-idx1-ubyte", -1, D::EmptySplit, empty_test_split},
  };
}

std::vector<BrokenSet> other_broken_sets() {
  const Bytes ten = cifar_records(kTen, 10), hundred = cifar_records(kHundred, 100);
  const Bytes clouds = point_clouds(4);
  Bytes one_point = clouds;
  for (std::size_t i = 0; i < 6144; ++i) one_point[6144 * 2 + i] = std::byte{1};
  const std::string batch = "data_batch_3.bin", clouds_file = "train_1024_q10.u16";
  const std::string names = "shape_names.txt", labels = "train_labels.u8";
  using D = Defect;
  return {
      {Kind::Cifar10, batch, -1, D::MissingFile, lacks(batch)},
      {Kind::Cifar10, batch, 9, D::TruncatedRecord, holds(batch, shorter(ten, 1))},
      {Kind::Cifar10, batch, 9, D::MissingRecords, holds(batch, shorter(ten, 3073))},
      {Kind::Cifar10, batch, -1, D::TrailingBytes, holds(batch, cifar_records(kTen, 11))},
      {Kind::Cifar10, batch, 4, D::LabelOutOfRange, holds(batch, changed(ten, 4 * 3073, 10))},
      {Kind::Cifar10, "test_batch.bin", -1, D::MissingClass,
       holds("test_batch.bin", changed(ten, 3 * 3073, 2))},
      {Kind::Cifar10, "test_batch.bin", -1, D::EmptyFile, holds("test_batch.bin", {})},
      {Kind::Cifar100, "train.bin", 6, D::CoarseLabelOutOfRange,
       holds("train.bin", changed(hundred, 6 * 3074, 20))},
      {Kind::Cifar100, "train.bin", 6, D::LabelOutOfRange,
       holds("train.bin", changed(hundred, 6 * 3074 + 1, 100))},
      {Kind::Points, clouds_file, 1, D::CoordinateOutOfRange,
       holds(clouds_file, changed(clouds, 6144 + 1, 4))},
      {Kind::Points, clouds_file, 2, D::DegenerateShape,
       holds(clouds_file, changed(one_point, 0, 0))},
      {Kind::Points, clouds_file, 3, D::TruncatedRecord, holds(clouds_file, shorter(clouds, 1))},
      {Kind::Points, labels, -1, D::CountMismatch, holds(labels, point_labels(3))},
      {Kind::Points, labels, 2, D::LabelOutOfRange, holds(labels, point_labels(4, 4))},
      {Kind::Points, names, 1, D::BadClassName, holds(names, bytes_of("chair\nchair\n"))},
      {Kind::Points, names, -1, D::MissingFile, lacks(names)},
      {Kind::Text, "tinyshakespeare.txt", 3, D::BinaryByte,
       holds("tinyshakespeare.txt", bytes_of(std::string_view("abc\0efghijklmnopqrstuvwx", 24)))},
      {Kind::Text, "tinyshakespeare.txt", -1, D::EmptySplit,
       holds("tinyshakespeare.txt", bytes_of("too short"))},
      {Kind::Text, "tinyshakespeare.txt", -1, D::MissingFile, lacks("tinyshakespeare.txt")},
  };
}

std::vector<BrokenSet> corpus() {
  std::vector<BrokenSet> all = broken_idx_sets();
  for (BrokenSet& set : other_broken_sets()) all.push_back(std::move(set));
  return all;
}

std::vector<Finding> read(Kind kind, const TestFolder& folder, BadDataRule rule) {
  switch (kind) {
    case Kind::Idx:
      return read_idx_set(folder.path(), "mnist", rule).findings;
    case Kind::Cifar10:
      return read_cifar(folder.path(), kTen, rule).findings;
    case Kind::Cifar100:
      return read_cifar(folder.path(), kHundred, rule).findings;
    case Kind::Points:
      return read_point_clouds(folder.path(), rule).findings;
    case Kind::Text:
      return read_text_corpus(folder.path(), rule).findings;
  }
  return {};
}

void write_good_set(Kind kind, const TestFolder& folder) {
  switch (kind) {
    case Kind::Idx:
      return test::write_idx_set(folder);
    case Kind::Cifar10:
      return test::write_cifar_set(folder, kTen);
    case Kind::Cifar100:
      return test::write_cifar_set(folder, kHundred);
    case Kind::Points:
      return test::write_point_set(folder);
    case Kind::Text:
      folder.write("tinyshakespeare.txt", bytes_of("First Citizen:\nBefore we proceed"));
  }
}

std::string description(const BrokenSet& broken) {
  return finding_text({broken.file, broken.record, broken.defect, ""});
}

TEST(DefectCorpus, HasFortyKindsOfDefects) { EXPECT_GE(corpus().size(), 40u); }

TEST(DefectCorpus, GoodSetsHaveNoFinding) {
  for (const Kind kind : {Kind::Idx, Kind::Cifar10, Kind::Cifar100, Kind::Points, Kind::Text}) {
    const TestFolder folder;
    write_good_set(kind, folder);
    EXPECT_TRUE(read(kind, folder, BadData::Report).empty()) << static_cast<int>(kind);
  }
}

TEST(DefectCorpus, ReportNamesFileRecordAndDefectOfEach) {
  for (const BrokenSet& broken : corpus()) {
    const TestFolder folder;
    write_good_set(broken.kind, folder);
    broken.damage(folder);
    const std::vector<Finding> findings = read(broken.kind, folder, BadData::Report);
    ASSERT_FALSE(findings.empty()) << description(broken);
    const Finding& first = findings.front();
    EXPECT_EQ(first.file, (folder.path() / broken.file).string()) << description(broken);
    EXPECT_EQ(first.record, broken.record) << description(broken);
    EXPECT_EQ(first.defect, broken.defect) << description(broken) << "\n" << finding_text(first);
  }
}

TEST(DefectCorpus, FailThrowsTheDefectOfEach) {
  for (const BrokenSet& broken : corpus()) {
    const TestFolder folder;
    write_good_set(broken.kind, folder);
    broken.damage(folder);
    try {
      read(broken.kind, folder, BadData::Fail);
      ADD_FAILURE() << "nothing thrown for " << description(broken);
    } catch (const DefectError& error) {
      EXPECT_EQ(error.finding.defect, broken.defect) << description(broken);
    }
  }
}

TEST(DefectCorpus, SkipNeverLetsASmallSetLoseRecords) {
  for (const BrokenSet& broken : corpus()) {
    const TestFolder folder;
    write_good_set(broken.kind, folder);
    broken.damage(folder);
    if (broken.defect == Defect::TrailingBytes && !broken.file.ends_with(".gz"))
      EXPECT_EQ(read(broken.kind, folder, BadData::Skip).size(), 1u) << description(broken);
    else
      EXPECT_THROW(read(broken.kind, folder, BadData::Skip), DataError) << description(broken);
  }
}

TEST(ScanDataSet, KnowsEverySetAndListsWhatIsMissing) {
  const TestFolder folder;
  for (const char* name : {"fashion-mnist", "mnist", "cifar10", "cifar100", "modelnet40", "text"})
    EXPECT_EQ(scan_data_set(name, folder.path()).front().defect, Defect::MissingFile) << name;
  EXPECT_THROW(scan_data_set("imagenet", folder.path()), UsageError);
}

}  // namespace
}  // namespace triaccel
