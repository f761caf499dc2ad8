#include "triaccel/formats/cifar.h"

#include <algorithm>

#include "triaccel/formats/file_bytes.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChannels = 3, kCifarSide = 32;
constexpr std::int64_t kPixelBytes = kChannels * kCifarSide * kCifarSide;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{160} << 20;  // CIFAR-100's train.bin: 147 MiB

ImageSet read_split(const fs::path& folder, const std::vector<std::string>& files,
                    std::int64_t records_per_file, const CifarLayout& layout, DefectLog& log) {
  ImageSet set{.name = layout.name,
               .channels = kChannels,
               .height = kCifarSide,
               .width = kCifarSide,
               .classes = layout.classes};
  std::int64_t expected = 0;
  for (const std::string& name : files) {
    const fs::path file = folder / name;
    try {
      expected += append_cifar_records(read_file(file, kMaxFileBytes), file.string(), layout,
                                       records_per_file, set, log);
    } catch (const DefectError& error) {
      log.add(error.finding);
    }
  }
  const std::string split = files.empty() ? folder.string() : (folder / files.front()).string();
  log.close_split(split, expected, set.count);
  check_classes(set.labels, layout.classes, split, log);
  return set;
}

}  // namespace

CifarLayout cifar10_layout() {
  return {.name = "cifar10",
          .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                          "data_batch_4.bin", "data_batch_5.bin"},
          .test_files = {"test_batch.bin"},
          .classes = 10,
          .coarse_classes = 0,
          .records_per_train_file = 10'000,
          .records_per_test_file = 10'000};
}

CifarLayout cifar100_layout() {
  return {.name = "cifar100",
          .train_files = {"train.bin"},
          .test_files = {"test.bin"},
          .classes = 100,
          .coarse_classes = 20,
          .records_per_train_file = 50'000,
          .records_per_test_file = 10'000};
}

std::int64_t append_cifar_records(std::span<const std::byte> file, std::string_view file_name,
                                  const CifarLayout& layout, std::int64_t expected_records,
                                  ImageSet& set, DefectLog& log) {
  const std::int64_t label_bytes = layout.coarse_classes > 0 ? 2 : 1;
  const std::int64_t record_bytes = label_bytes + kPixelBytes;
  const auto bytes = static_cast<std::int64_t>(file.size());
  const std::int64_t there = bytes / record_bytes, rest = bytes % record_bytes;
  const std::int64_t begun = there + (rest > 0 ? 1 : 0);
  const std::int64_t expected = expected_records > 0 ? expected_records : begun;
  if (begun > expected)
    log.add(
        file_name, -1, Defect::TrailingBytes,
        text(bytes - expected * record_bytes, " bytes after the last of ", expected, " records"));
  else if (rest > 0)
    log.add(file_name, there, Defect::TruncatedRecord,
            text("the file ends after ", rest, " of ", record_bytes, " bytes; download it again"));
  if (begun < expected)
    log.add(file_name, begun, Defect::MissingRecords,
            text("the file ends before the last of ", expected, " records; download it again"));

  const std::int64_t count = std::min(there, expected);
  set.pixels.reserve(set.pixels.size() + static_cast<std::size_t>(count * kPixelBytes));
  set.labels.reserve(set.labels.size() + static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto* record = reinterpret_cast<const std::uint8_t*>(file.data()) + i * record_bytes;
    if (layout.coarse_classes > 0 && record[0] >= layout.coarse_classes) {
      log.add(file_name, i, Defect::CoarseLabelOutOfRange,
              text(int{record[0]}, ", the largest is ", layout.coarse_classes - 1));
      continue;
    }
    const std::uint8_t label = record[label_bytes - 1];
    if (label >= layout.classes) {
      log.add(file_name, i, Defect::LabelOutOfRange,
              text(int{label}, ", the largest is ", layout.classes - 1));
      continue;
    }
    set.pixels.insert(set.pixels.end(), record + label_bytes, record + record_bytes);
    set.labels.push_back(label);
  }
  set.count = static_cast<std::int64_t>(set.labels.size());
  return expected;
}

ImageSplits read_cifar(const fs::path& folder, const CifarLayout& layout, BadDataRule rule) {
  DefectLog log(rule);
  ImageSplits splits;
  splits.train = read_split(folder, layout.train_files, layout.records_per_train_file, layout, log);
  splits.test = read_split(folder, layout.test_files, layout.records_per_test_file, layout, log);
  splits.findings = log.take();
  return splits;
}

ImageSplits read_cifar10(const fs::path& folder, BadDataRule rule) {
  return read_cifar(folder, cifar10_layout(), rule);
}

ImageSplits read_cifar100(const fs::path& folder, BadDataRule rule) {
  return read_cifar(folder, cifar100_layout(), rule);
}

}  // namespace triaccel
