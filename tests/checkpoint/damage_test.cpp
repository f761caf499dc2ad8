#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/checkpoint/sample_checkpoint.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFloats = 16'000;  // about 64 KiB

/// Two generations of one run; the newer one is about to be damaged.
class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    store_.save(sample_info(1, 1), sample_files(1, kFloats));
    store_.save(sample_info(2, 2), sample_files(2, kFloats));
  }

  fs::path newer(const std::string& file) const { return store_.directory() / "step-2" / file; }

  /// Whether the reader finds the damage, names the file and hands out the older generation.
  bool falls_back(const std::string& damaged_file) const {
    const LoadedCheckpoint loaded = store_.load_latest().value();
    return loaded.info == sample_info(1, 1) && loaded.notices.size() == 1 &&
           loaded.notices[0].find("step-2/" + damaged_file) != std::string::npos;
  }

  TemporaryDirectory temporary_;
  CheckpointStore store_{temporary_.path() / "checkpoints"};
};

/// Flips bits in a file, and back again.
class BitFlipper {
 public:
  explicit BitFlipper(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDWR)) {}
  ~BitFlipper() { ::close(descriptor_); }
  BitFlipper(const BitFlipper&) = delete;
  BitFlipper& operator=(const BitFlipper&) = delete;

  bool flip(std::size_t byte, unsigned bit) const {
    unsigned char value = 0;
    const auto offset = static_cast<off_t>(byte);
    if (::pread(descriptor_, &value, 1, offset) != 1) return false;
    value = static_cast<unsigned char>(value ^ (1u << bit));
    return ::pwrite(descriptor_, &value, 1, offset) == 1;
  }

 private:
  int descriptor_;
};

std::size_t header_end_of(const fs::path& safetensors) {
  std::uint64_t length = 0;
  std::ifstream(safetensors, std::ios::binary).read(reinterpret_cast<char*>(&length), 8);
  return 8 + length;
}

TEST_F(DamageTest, EveryFlippedBitOfAManifestIsFound) {
  const BitFlipper flipper(newer("manifest.json"));
  const std::size_t size = fs::file_size(newer("manifest.json"));
  for (std::size_t byte = 0; byte < size; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit) {
      ASSERT_TRUE(flipper.flip(byte, bit));
      ASSERT_THROW(store_.load(2), StorageError) << "byte " << byte << ", bit " << bit;
      ASSERT_TRUE(bit != byte % 8 || falls_back("manifest.json")) << "byte " << byte;
      ASSERT_TRUE(flipper.flip(byte, bit));
    }
}

TEST_F(DamageTest, EveryFlippedByteOfAHeaderIsFound) {
  for (const std::string file :
       {"weights.safetensors", "optimizer.safetensors", "trainer.safetensors"}) {
    const BitFlipper flipper(newer(file));
    const std::size_t header_end = header_end_of(newer(file));
    ASSERT_GT(header_end, 64u);
    for (std::size_t byte = 0; byte < header_end; ++byte) {
      ASSERT_TRUE(flipper.flip(byte, byte % 8));
      ASSERT_TRUE(falls_back(file)) << file << ", byte " << byte;
      ASSERT_TRUE(flipper.flip(byte, byte % 8));
    }
  }
}

TEST_F(DamageTest, TenThousandFlippedBitsOfTheTensorsAreFound) {
  const std::string file = "weights.safetensors";
  const BitFlipper flipper(newer(file));
  const auto size = static_cast<std::uint32_t>(fs::file_size(newer(file)));
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const RandomWords random = random_words(1, i);
    const std::size_t byte = bounded(random.words[0], size);
    ASSERT_TRUE(flipper.flip(byte, random.words[1] % 8));
    ASSERT_THROW(store_.load(2), StorageError) << "byte " << byte;
    ASSERT_TRUE(i % 20 != 0 || falls_back(file)) << "byte " << byte;
    ASSERT_TRUE(flipper.flip(byte, random.words[1] % 8));
  }
  EXPECT_TRUE(holds(store_.load(2), sample_files(2, kFloats)));
}

TEST_F(DamageTest, NamesTheChunk) {
  const std::vector<CheckpointFile> large = {
      {.name = "weights.safetensors", .tensors = {number_state("w", random_floats(1, 3'000'000))}}};
  store_.save(sample_info(2, 2), large);
  const BitFlipper flipper(newer("weights.safetensors"));
  ASSERT_TRUE(flipper.flip(std::size_t{5} << 20, 0));
  const std::string notice = store_.load_latest()->notices.at(0);
  EXPECT_NE(notice.find("chunk 1 (bytes 4194304 to 8388607)"), std::string::npos) << notice;
}

TEST_F(DamageTest, EveryTruncationIsFound) {
  const auto save = [&] { store_.save(sample_info(2, 2), sample_files(2, /*floats=*/100)); };
  save();
  for (const std::string file :
       {"weights.safetensors", "optimizer.safetensors", "trainer.safetensors", "manifest.json"}) {
    for (std::size_t size = fs::file_size(newer(file)); size-- > 0;) {
      fs::resize_file(newer(file), size);
      ASSERT_THROW(store_.load(2), StorageError) << file << " cut to " << size;
      ASSERT_TRUE(size % 64 != 0 || falls_back(file)) << file << " cut to " << size;
    }
    save();
  }
}

TEST_F(DamageTest, AGrownFileIsFound) {
  fs::resize_file(newer("trainer.safetensors"), fs::file_size(newer("trainer.safetensors")) + 1);
  EXPECT_TRUE(falls_back("trainer.safetensors"));
}

}  // namespace
}  // namespace triaccel
