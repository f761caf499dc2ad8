#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "triaccel/int8_run/samples.h"
#include "triaccel/int8_run/steps.h"

namespace triaccel {

/// Bytes of a file, read where they are asked for.
class RandomAccessFile {
 public:
  /// At most `max_bytes`; throws DataError naming the file, also where only `path`.gz exists.
  RandomAccessFile(const std::filesystem::path& path, std::uint64_t max_bytes);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  /// Fills `to` from `offset` on. Throws DataError where the file has become shorter.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  std::int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// One split whose labels are in memory and whose samples stay in their file.
struct SampleFile {
  std::shared_ptr<const RandomAccessFile> file = {};
  std::vector<std::uint8_t> labels = {};
  Int8Reader reader = {};

  std::int64_t count() const { return std::ssize(labels); }
};

/// A data set in its official files.
struct SampleFiles {
  std::shared_ptr<const SampleFile> train = {}, test = {};
  Int8Shape shape = {};
  std::int64_t bytes() const { return train->count() + test->count(); }  // in memory
};

/// Opens "mnist", "fashion-mnist" or "modelnet40" as find_data_folder finds it and checks every
/// record once. Steps on its samples give the same bits as on those of the whole set in memory.
/// Throws DataError naming the file and its first defect, UsageError for another set.
SampleFiles open_sample_files(const std::string& name, const std::filesystem::path& root);

}  // namespace triaccel
