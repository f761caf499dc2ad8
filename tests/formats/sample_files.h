#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/cifar.h"
#include "triaccel/formats/point_cloud.h"

// Small files of every format the readers know, made in memory.
namespace triaccel::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view written) {
  const auto view = std::as_bytes(std::span(written));
  return {view.begin(), view.end()};
}

inline void append(Bytes& bytes, std::size_t count, std::uint8_t value) {
  bytes.insert(bytes.end(), count, std::byte{value});
}

/// An empty folder that goes away with the test.
class TestFolder {
 public:
  TestFolder() {
    static std::atomic<int> next = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("triaccel_formats_" + std::to_string(getpid()) + "_" + std::to_string(next++));
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::span<const std::byte> bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline Bytes gzip_of(std::span<const std::byte> plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&stream, static_cast<uLong>(plain.size())) + 32);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.erase(packed.end() - static_cast<std::ptrdiff_t>(stream.avail_out), packed.end());
  deflateEnd(&stream);
  return packed;
}

inline void append_word(Bytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::byte>(word >> shift & 0xffu));
}

/// Image i is filled with the value i.
inline Bytes idx_images(std::uint32_t count, std::uint32_t height = 28, std::uint32_t width = 28) {
  Bytes bytes;
  append_word(bytes, 0x00000803);
  append_word(bytes, count);
  append_word(bytes, height);
  append_word(bytes, width);
  for (std::uint32_t i = 0; i < count; ++i)
    append(bytes, std::size_t{height} * width, static_cast<std::uint8_t>(i));
  return bytes;
}

/// Labels 0, 1, ..., 9, 0, ...
inline Bytes idx_labels(std::uint32_t count) {
  Bytes bytes;
  append_word(bytes, 0x00000801);
  append_word(bytes, count);
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(i % 10));
  return bytes;
}

inline void write_idx_set(const TestFolder& folder, std::uint32_t train = 20,
                          std::uint32_t test = 10) {
  folder.write("train-images-idx3-ubyte", idx_images(train));
  folder.write("train-labels-idx1-ubyte", idx_labels(train));
  folder.write("t10k-images-idx3-ubyte", idx_images(test));
  folder.write("t10k-labels-idx1-ubyte", idx_labels(test));
}

/// CIFAR's layout with as few records a file as there are classes.
inline CifarLayout small_layout(CifarLayout layout) {
  layout.records_per_train_file = layout.records_per_test_file = layout.classes;
  return layout;
}

/// Record i has label i modulo the classes and is filled with i.
inline Bytes cifar_records(const CifarLayout& layout, std::int64_t count) {
  Bytes bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % layout.classes;
    if (layout.coarse_classes > 0)
      append(bytes, 1, static_cast<std::uint8_t>(label % layout.coarse_classes));
    append(bytes, 1, static_cast<std::uint8_t>(label));
    append(bytes, 3072, static_cast<std::uint8_t>(i));
  }
  return bytes;
}

inline void write_cifar_set(const TestFolder& folder, const CifarLayout& layout) {
  for (const std::string& file : layout.train_files)
    folder.write(file, cifar_records(layout, layout.records_per_train_file));
  for (const std::string& file : layout.test_files)
    folder.write(file, cifar_records(layout, layout.records_per_test_file));
}

/// Cloud i: x runs over 0..1023, y is constant i, z is constant 0.
inline Bytes point_clouds(std::size_t count) {
  Bytes bytes;
  const auto add = [&](std::size_t value) {
    bytes.push_back(static_cast<std::byte>(value & 0xff));
    bytes.push_back(static_cast<std::byte>(value >> 8));
  };
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t p = 0; p < 1024; ++p) add(p);
    for (std::size_t p = 0; p < 1024; ++p) add(i % 1024);
    for (std::size_t p = 0; p < 1024; ++p) add(0);
  }
  return bytes;
}

inline Bytes point_labels(std::size_t count, std::size_t classes = 2) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(i % classes));
  return bytes;
}

inline void write_point_set(const TestFolder& folder) {
  folder.write("train_1024_q10.u16", point_clouds(4));
  folder.write("train_labels.u8", point_labels(4));
  folder.write("test_1024_q10.u16", point_clouds(2));
  folder.write("test_labels.u8", point_labels(2));
  folder.write("shape_names.txt", bytes_of("airplane\nbathtub\n"));
}

}  // namespace triaccel::test
