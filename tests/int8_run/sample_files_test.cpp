#include "triaccel/int8_run/sample_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "triaccel/base/error.h"
#include "triaccel/formats/idx.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    char name[] = "/tmp/triaccel_sample_files_XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
  fs::path path;
};

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

void write_digits(const Folder& folder) {
  for (const auto& [prefix, count] : {std::pair{"train", 30u}, std::pair{"t10k", 20u}}) {
    std::string pixels, labels;
    for (unsigned i = 0; i < count; ++i) {
      labels += static_cast<char>(i % 10);
      for (unsigned p = 0; p < 784; ++p) pixels += static_cast<char>((i * 31 + p * 7) % 256);
    }
    folder.write(std::string(prefix) + "-images-idx3-ubyte",
                 big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28) + pixels);
    folder.write(std::string(prefix) + "-labels-idx1-ubyte",
                 big_endian(0x801) + big_endian(count) + labels);
  }
}

void write_clouds(const Folder& folder) {
  folder.write("shape_names.txt", "chair\ntable\n");
  for (const char* split : {"train", "test"}) {
    std::string coordinates;
    for (unsigned v = 0; v < 4 * kCloudValues; ++v) {
      const unsigned q = v * 13 % 1024;
      coordinates += {static_cast<char>(q & 255), static_cast<char>(q >> 8)};
    }
    folder.write(std::string(split) + "_1024_q10.u16", coordinates);
    folder.write(std::string(split) + "_labels.u8", std::string("\0\1\1\0", 4));
  }
}

/// What a step sees of all samples.
void expect_same(const Int8Reader& streamed, const Int8Samples& resident) {
  const Int8Reader expected = resident.reader();
  ASSERT_EQ(streamed.inputs, expected.inputs);
  EXPECT_EQ(streamed.exponent, expected.exponent);
  std::vector<std::int8_t> a(static_cast<std::size_t>(streamed.inputs)), b = a;
  for (std::int64_t id = resident.count; id-- > 0;) {
    EXPECT_EQ(streamed.read(id, a.data()), expected.read(id, b.data()));
    EXPECT_EQ(a, b) << id;
  }
}

TEST(SampleFiles, GiveTheSameMantissasAsImagesInMemory) {
  const Folder folder;
  write_digits(folder);
  const SampleFiles files = open_sample_files("mnist", folder.path);
  const ImageSplits splits = read_idx_set(folder.path, "mnist");
  expect_same(files.train->reader, int8_images(splits.train));
  expect_same(files.test->reader, int8_images(splits.test));
  EXPECT_EQ(files.shape.image_size, 28);
  EXPECT_EQ(files.bytes(), 50);  // labels only
}

TEST(SampleFiles, GiveTheSameMantissasAsCloudsInMemory) {
  const Folder folder;
  write_clouds(folder);
  const SampleFiles files = open_sample_files("modelnet40", folder.path);
  const PointSplits splits = read_point_clouds(folder.path);
  expect_same(files.train->reader, int8_clouds(splits.train));
  expect_same(files.test->reader, int8_clouds(splits.test));
  EXPECT_EQ(files.shape.classes, 2);
}

TEST(SampleFiles, RejectWhatAReaderOfTheWholeSetRejects) {
  struct Case {
    const char* data;
    std::function<void(const Folder&)> damage;
  };
  const std::vector<Case> cases = {
      {"mnist", [](const Folder& f) { f.write("train-labels-idx1-ubyte", "short"); }},
      {"mnist", [](const Folder& f) { fs::resize_file(f.path / "t10k-images-idx3-ubyte", 900); }},
      {"mnist",
       [](const Folder& f) {
         f.write("t10k-labels-idx1-ubyte",
                 big_endian(0x801) + big_endian(20) + std::string(20, '\x0b'));
       }},
      {"modelnet40", [](const Folder& f) { fs::resize_file(f.path / "test_1024_q10.u16", 6145); }},
      {"modelnet40", [](const Folder& f) { f.write("train_labels.u8", std::string("\0\1", 2)); }},
      {"modelnet40",
       [](const Folder& f) { f.write("test_1024_q10.u16", std::string(4 * 6144, '\x7f')); }},
      {"modelnet40", [](const Folder& f) { fs::remove(f.path / "shape_names.txt"); }},
  };
  for (const Case& one : cases) {
    const Folder folder;
    std::string(one.data) == "mnist" ? write_digits(folder) : write_clouds(folder);
    EXPECT_NO_THROW(open_sample_files(one.data, folder.path));
    one.damage(folder);
    EXPECT_THROW(open_sample_files(one.data, folder.path), DataError) << &one - cases.data();
  }
}

TEST(SampleFiles, NoticeAFileThatBecomesShorter) {
  const Folder folder;
  write_digits(folder);
  const SampleFiles files = open_sample_files("mnist", folder.path);
  fs::resize_file(folder.path / "train-images-idx3-ubyte", 1000);
  std::vector<std::int8_t> mantissas(784);
  EXPECT_THROW(files.train->reader.read(5, mantissas.data()), DataError);
}

TEST(SampleFiles, AskForUnpackedFilesOfKnownSets) {
  const Folder folder;
  write_digits(folder);
  fs::rename(folder.path / "train-images-idx3-ubyte", folder.path / "train-images-idx3-ubyte.gz");
  try {
    open_sample_files("mnist", folder.path);
    FAIL() << "a compressed file was accepted";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("gunzip -k"), std::string::npos) << error.what();
  }
  EXPECT_THROW(open_sample_files("cifar10", folder.path), UsageError);
}

}  // namespace
}  // namespace triaccel
