#include "triaccel/formats/manifest.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

Manifest sample() {
  return {.step = 1200,
          .config_hash = 0xFEDCBA9876543210u,
          .commit = "0123abcd",
          .torch_version = "2.11.0+cu130 \"ü\"",
          .files = {{.name = "weights.safetensors",
                     .sums = {.size = kManifestChunkBytes + 1, .xxh3 = 1, .chunks = {2, 3}}},
                    {.name = "trainer.safetensors", .sums = {.size = 0, .xxh3 = 4}}}};
}

/// `text` with the first `from` made `to`, and the sum made right again.
std::string edited(const std::string& from, const std::string& to) {
  std::string written = manifest_text(sample());
  written.resize(written.find(",\n \"sum\""));
  const std::size_t at = written.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return seal_manifest(written.replace(at, from.size(), to));
}

std::string manifest_complaint(const std::string& written) {
  try {
    parse_manifest(written, "manifest.json");
    return "";
  } catch (const StorageError& error) {
    return error.what();
  }
}

TEST(ManifestText, ComesBackAsItWas) {
  EXPECT_EQ(parse_manifest(manifest_text(sample()), "manifest.json"), sample());
  EXPECT_EQ(parse_manifest(manifest_text({}), "manifest.json"), Manifest{});
}

TEST(ManifestText, RefusesWhatItCouldNotReadBack) {
  Manifest manifest = sample();
  manifest.step = -1;
  EXPECT_THROW(manifest_text(manifest), UsageError);
  manifest = sample();
  manifest.commit = std::string(300, 'x');
  EXPECT_THROW(manifest_text(manifest), UsageError);
  for (const char* name : {"", "..", "a/b", "manifest.json", "A", ".hidden", "a b"}) {
    manifest = sample();
    manifest.files[0].name = name;
    EXPECT_THROW(manifest_text(manifest), UsageError) << name;
  }
}

TEST(ParseManifest, RefusesEveryTruncation) {
  const std::string written = manifest_text(sample());
  for (std::size_t size = 0; size < written.size(); ++size)
    EXPECT_NE(manifest_complaint(written.substr(0, size)), "") << size;
  EXPECT_NE(manifest_complaint(written + " "), "");
}

TEST(ParseManifest, RefusesEveryFlippedBit) {
  const std::string written = manifest_text(sample());
  for (std::size_t bit = 0; bit < 8 * written.size(); ++bit) {
    std::string flipped = written;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(manifest_complaint(flipped), "") << bit;
  }
}

TEST(ParseManifest, RefusesHugeInput) {
  const std::string huge(static_cast<std::size_t>(kMaxManifestBytes) + 1, ' ');
  EXPECT_NE(manifest_complaint(huge).find("too large"), std::string::npos);
}

TEST(ParseManifest, NamesTheFileAndTheField) {
  struct Edit {
    const char *from, *to, *field;
  };
  for (const Edit& edit : std::vector<Edit>{
           {"\"version\": 1", "\"version\": 2", "'version'"},
           {"\"step\": 1200", "\"step\": -1", "'step'"},
           {"\"step\": 1200", "\"step\": 1.5", "'step'"},
           {"\"step\": 1200", "\"step\": 18446744073709551615", "'step'"},
           {"\"step\"", "\"stop\"", "'step'"},
           {"\"step\": 1200", "\"step\": 1200, \"step\": 1", "'step'"},
           {"\"step\": 1200", "\"step\": 1200, \"more\": 1", "''"},
           {"fedcba9876543210", "fedcba987654321", "'config_hash'"},
           {"fedcba9876543210", "fedcba987654321G", "'config_hash'"},
           {"\"fedcba9876543210\"", "17", "'config_hash'"},
           {"\"0123abcd\"", "[]", "'commit'"},
           {"\"size\": 4194305", "\"size\": 4194304", "'files[0].chunks'"},
           {"\"size\": 4194305", "\"size\": 9223372036854775807", "'files[0].chunks'"},
           {"weights.safetensors", "../weights", "'files[0].name'"},
           {"weights.safetensors", "trainer.safetensors", "'files[1].name'"},
           {"\"files\": [", "\"files\": [1,", "'files[0].'"},
           {"\"0000000000000002\"", "[[[[[]]]]]", "nested"},
           {"\"0000000000000002\"", "2", "'files[0].chunks'"}}) {
    const std::string message = manifest_complaint(edited(edit.from, edit.to));
    EXPECT_NE(message.find(edit.field), std::string::npos) << edit.to << " gave: " << message;
    EXPECT_EQ(message.find("manifest.json"), 0u) << message;
  }
}

TEST(ParseManifest, RefusesWhatIsNotAnObject) {
  for (const std::string open : {"", "[", "1", "{\"a\": ", "{\"version\": 1}"})
    EXPECT_NE(manifest_complaint(seal_manifest(open)), "") << open;
  EXPECT_NE(manifest_complaint(seal_manifest(std::string("{\"version\": 1}\0", 15))), "");
}

TEST(FileSummer, DoesNotDependOnThePieces) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(2 * kManifestChunkBytes + 17));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 7);
  const FileSums whole = sum_of(bytes);
  EXPECT_EQ(whole.chunks.size(), 3u);
  EXPECT_EQ(whole.xxh3, xxh3(bytes));
  EXPECT_EQ(whole.chunks[2], xxh3(std::span(bytes).last(17)));
  FileSummer summer;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t piece = std::min<std::size_t>(1 + i % 1'000'003, bytes.size() - i);
    summer.add(std::span(bytes).subspan(i, piece));
    i += piece;
  }
  EXPECT_EQ(summer.sums(), whole);
  EXPECT_EQ(sum_of({}).chunks.size(), 0u);
  EXPECT_EQ(sum_of(std::span(bytes).first(kManifestChunkBytes)).chunks.size(), 1u);
}

TEST(Xxh3Hash, IsTheOneEveryoneElseComputes) {
  EXPECT_EQ(hash_text(xxh3(std::string_view())), "2d06800538d394c2");
  EXPECT_EQ(hash_text(0x0123456789ABCDEFu), "0123456789abcdef");
}

}  // namespace
}  // namespace triaccel
