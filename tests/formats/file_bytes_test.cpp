#include "triaccel/formats/file_bytes.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/formats/sample_files.h"

namespace triaccel {
namespace {

using test::Bytes;
using test::bytes_of;
using test::gzip_of;
using test::TestFolder;

Defect defect_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const DefectError& error) {
    return error.finding.defect;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Defect::FurtherDefects;
}

TEST(ReadFile, GivesTheBytesBack) {
  const TestFolder folder;
  const Bytes bytes = bytes_of(std::string_view("a\0b\n", 4));
  EXPECT_EQ(read_file(folder.write("x", bytes), 4), bytes);
}

TEST(ReadFile, NamesWhatIsWrongWithAFile) {
  const TestFolder folder;
  const auto full = folder.write("full", bytes_of("12345"));
  const auto empty = folder.write("empty", {});
  EXPECT_EQ(defect_of([&] { read_file(folder.path() / "none", 9); }), Defect::MissingFile);
  EXPECT_EQ(defect_of([&] { read_file(folder.path(), 9); }), Defect::Unreadable);
  EXPECT_EQ(defect_of([&] { read_file("/dev/zero", 9); }), Defect::Unreadable);
  EXPECT_EQ(defect_of([&] { read_file(full / "below", 9); }), Defect::MissingFile);
  EXPECT_EQ(defect_of([&] { read_file(empty, 9); }), Defect::EmptyFile);
  EXPECT_EQ(defect_of([&] { read_file(full, 4); }), Defect::FileTooLarge);
}

TEST(ReadFile, RefusesAHugeSparseFileBeforeAllocating) {
  const TestFolder folder;
  const auto file = folder.write("sparse", {});
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40);
  EXPECT_EQ(defect_of([&] { read_file(file, 1 << 20); }), Defect::FileTooLarge);
}

TEST(InflateGzip, GivesBackWhatWasPacked) {
  Bytes plain(300'000);
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * i >> 7);
  EXPECT_EQ(inflate_gzip(gzip_of(plain), plain.size(), "x.gz"), plain);
  EXPECT_TRUE(inflate_gzip(gzip_of({}), 0, "x.gz").empty());
}

TEST(InflateGzip, EveryTruncationIsATypedError) {
  const Bytes packed = gzip_of(bytes_of("to be, or not to be, that is the question: whether"));
  for (std::size_t n = 0; n < packed.size(); ++n)
    EXPECT_THROW(inflate_gzip(std::span(packed).first(n), 1000, "x.gz"), DataError) << n;
}

TEST(InflateGzip, AFlippedBitIsNoticedOrHarmless) {
  const Bytes plain = bytes_of("to be, or not to be, that is the question: whether");
  const Bytes packed = gzip_of(plain);
  int noticed = 0;
  for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    Bytes flipped = packed;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    try {
      EXPECT_EQ(inflate_gzip(flipped, 1000, "x.gz"), plain) << bit;
    } catch (const DataError&) {
      ++noticed;
    }
  }
  // All but the header's time stamp and system, and the bits that pad the last byte.
  EXPECT_GE(noticed, static_cast<int>(8 * (packed.size() - 10)));
}

TEST(InflateGzip, StopsABombAtItsLimit) {
  const Bytes bomb = gzip_of(Bytes(std::size_t{64} << 20));
  ASSERT_LT(bomb.size(), 100'000u);
  EXPECT_EQ(defect_of([&] { inflate_gzip(bomb, 1 << 20, "x.gz"); }), Defect::GzipTooLarge);
}

TEST(InflateGzip, ABombThatLiesAboutItsSizeIsStoppedToo) {
  Bytes bomb = gzip_of(Bytes(std::size_t{8} << 20));
  for (std::size_t i = 1; i <= 4; ++i) bomb[bomb.size() - i] = std::byte{0};
  EXPECT_EQ(defect_of([&] { inflate_gzip(bomb, 1 << 20, "x.gz"); }), Defect::GzipTooLarge);
  EXPECT_EQ(defect_of([&] { inflate_gzip(bomb, 64 << 20, "x.gz"); }), Defect::BadGzip);
}

TEST(InflateGzip, TheLimitItselfIsAllowed) {
  const Bytes plain(1000);
  EXPECT_EQ(inflate_gzip(gzip_of(plain), 1000, "x.gz").size(), 1000u);
  EXPECT_EQ(defect_of([&] { inflate_gzip(gzip_of(plain), 999, "x.gz"); }), Defect::GzipTooLarge);
}

TEST(InflateGzip, RefusesBytesAfterTheStream) {
  Bytes packed = gzip_of(bytes_of("text"));
  packed.push_back(std::byte{0});
  EXPECT_EQ(defect_of([&] { inflate_gzip(packed, 1000, "x.gz"); }), Defect::TrailingBytes);
}

TEST(ReadPlainOrGzip, PrefersThePlainFileAndFallsBackToThePackedOne) {
  const TestFolder folder;
  folder.write("a.gz", gzip_of(bytes_of("packed")));
  EXPECT_EQ(read_plain_or_gzip(folder.path() / "a", 100), bytes_of("packed"));
  folder.write("a", bytes_of("plain"));
  EXPECT_EQ(read_plain_or_gzip(folder.path() / "a", 100), bytes_of("plain"));
  EXPECT_EQ(defect_of([&] { read_plain_or_gzip(folder.path() / "b", 100); }), Defect::MissingFile);
}

}  // namespace
}  // namespace triaccel
