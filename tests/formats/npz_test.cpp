#include "triaccel/formats/npz.h"

#include "tests/formats/sample_images.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

using test::bytes_of;
using test::npy_of;
using test::zip_of;
using NpzBytes = test::Bytes;

NpzBytes counting(std::size_t count) {
  NpzBytes bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(i));
  return bytes;
}

template <typename T>
std::vector<T> values(const StateView& view) {
  std::vector<T> all(view.bytes.size() / sizeof(T));
  std::memcpy(all.data(), view.bytes.data(), view.bytes.size());
  return all;
}

std::string refusal(std::span<const std::byte> file) {
  try {
    parse_npz(file, "d.npz");
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("d.npz", 0), 0u) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string npy_refusal(std::span<const std::byte> file) {
  try {
    parse_npy(file, "m");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Npy, ReadsTypesAndByteOrders) {
  EXPECT_EQ(values<std::uint8_t>(parse_npy(npy_of("|u1", false, "(3,)", counting(3)), "m")),
            (std::vector<std::uint8_t>{0, 1, 2}));
  EXPECT_EQ(
      values<std::int16_t>(parse_npy(
          npy_of(">i2", false, "(2,)", bytes_of(std::string_view("\x01\x02\xff\xfe", 4))), "m")),
      (std::vector<std::int16_t>{0x102, -2}));
  const StateView wide = parse_npy(npy_of("<u2", false, "(1,)", bytes_of("\xff\xff")), "m");
  EXPECT_EQ(wide.type, ElementType::I32);
  EXPECT_EQ(values<std::int32_t>(wide), std::vector<std::int32_t>{65535});
  const float half = 0.5f;
  const StateView real =
      parse_npy(npy_of("<f4", false, "()", std::as_bytes(std::span(&half, 1))), "m");
  EXPECT_TRUE(real.shape.empty());
  EXPECT_EQ(values<float>(real), std::vector<float>{0.5f});
}

TEST(Npy, TurnsFortranOrderRound) {
  // [[0, 2, 4], [1, 3, 5]] by columns.
  const StateView view = parse_npy(npy_of("|u1", true, "(2, 3)", counting(6)), "m");
  EXPECT_EQ(view.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(values<std::uint8_t>(view), (std::vector<std::uint8_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Npy, RefusesWhatIsNotPlainNumbers) {
  EXPECT_NE(npy_refusal(npy_of("|O", false, "(1,)", counting(8))).find("objects"),
            std::string::npos);
  EXPECT_NE(npy_refusal(npy_of("<c8", false, "(1,)", counting(8))).find("'<c8'"),
            std::string::npos);
  EXPECT_NE(npy_refusal(npy_of("<u1x", false, "(1,)", counting(1))).find("<u1x"),
            std::string::npos);
  EXPECT_NE(npy_refusal(npy_of("|i4", false, "(1,)", counting(4))).find("|i4"), std::string::npos);
  NpzBytes huge = counting(8);
  huge[7] = std::byte{0x80};
  EXPECT_NE(npy_refusal(npy_of("<u8", false, "(1,)", huge)).find("2^63"), std::string::npos);
}

TEST(Npy, RefusesSizesThatDoNotMatch) {
  EXPECT_NE(npy_refusal(npy_of("|u1", false, "(4,)", counting(3))), "accepted");
  EXPECT_NE(npy_refusal(npy_of("|u1", false, "(2,)", counting(3))), "accepted");
  EXPECT_NE(
      npy_refusal(npy_of("|u1", false, "(4294967296, 4294967296, 4)", counting(3))).find("large"),
      std::string::npos);
  EXPECT_NE(npy_refusal(npy_of("|u1", false, "(-1,)", counting(3))), "accepted");
}

TEST(Npy, EveryTruncationIsRefused) {
  const NpzBytes file = npy_of("|u1", false, "(3,)", counting(3));
  for (std::size_t n = 0; n < file.size(); ++n)
    EXPECT_NE(npy_refusal(std::span(file).first(n)), "accepted") << n;
}

TEST(Npy, HeaderErrorsNameTheByte) {
  NpzBytes file = npy_of("|u1", false, "(3,)", counting(3));
  file[10] = std::byte{'['};
  EXPECT_NE(npy_refusal(file).find("header byte 0"), std::string::npos);
  const std::string twice = "|u1', 'descr': '|u1";
  EXPECT_NE(npy_refusal(npy_of(twice, false, "(3,)", counting(3))).find("twice"),
            std::string::npos);
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const NpzBytes x = npy_of("|u1", false, "(100,)", counting(100));
  const auto arrays = parse_npz(zip_of({{"x.npy", x, true}, {"y.npy", x, false}}), "d.npz");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "x");
  EXPECT_EQ(values<std::uint8_t>(arrays[0]), values<std::uint8_t>(arrays[1]));
  EXPECT_EQ(values<std::uint8_t>(arrays[0])[77], 77);
}

TEST(Npz, LeavesOtherMembersAlone) {
  const NpzBytes x = npy_of("|u1", false, "(2,)", counting(2));
  const NpzBytes file = zip_of({{"names.npy", bytes_of("no array"), false}, {"x.npy", x, false}});
  const std::vector<std::string> wanted = {"x", "y"};
  EXPECT_EQ(parse_npz(file, "d.npz", wanted).size(), 1u);
  EXPECT_NE(refusal(file).find("names.npy"), std::string::npos);
}

TEST(Npz, EveryTruncationIsRefused) {
  const NpzBytes file = zip_of({{"x.npy", npy_of("|u1", false, "(9,)", counting(9)), true}});
  for (std::size_t n = 0; n < file.size(); ++n)
    EXPECT_NE(refusal(std::span(file).first(n)), "accepted") << n;
}

TEST(Npz, EveryChangedByteIsFoundOrHarmless) {
  const NpzBytes file = zip_of({{"x.npy", npy_of("|u1", false, "(9,)", counting(9)), true}});
  for (std::size_t i = 0; i < file.size(); ++i)
    for (const int bit : {0, 7}) {
      NpzBytes changed = file;
      changed[i] ^= static_cast<std::byte>(1 << bit);
      try {
        for (const StateView& view : parse_npz(changed, "d.npz"))
          EXPECT_EQ(values<std::uint8_t>(view).size(), 9u) << i;
      } catch (const DataError&) {
      }
    }
}

TEST(Npz, DamagedDataIsFoundByItsChecksum) {
  NpzBytes file = zip_of({{"x.npy", npy_of("|u1", false, "(9,)", counting(9)), false}});
  file[30 + 5 + 128 + 3] ^= std::byte{1};  // behind local header, name and array header
  EXPECT_NE(refusal(file).find("checksum"), std::string::npos);
}

TEST(Npz, RefusesBombs) {
  NpzBytes file = zip_of({{"x.npy", npy_of("|u1", false, "(9,)", counting(9)), true}});
  const std::size_t directory = file.size() - 22 - 46 - 5;
  for (std::size_t i = 0; i < 4; ++i) file[directory + 24 + i] = std::byte{0x7f};  // 2 GB
  EXPECT_NE(refusal(file).find("cannot hold"), std::string::npos);
  NpzBytes small = zip_of({{"x.npy", npy_of("|u1", false, "(999,)", counting(999)), true}});
  small[small.size() - 22 - 46 - 5 + 24] = std::byte{0};  // fewer bytes than it has
  EXPECT_NE(refusal(small).find("expands beyond"), std::string::npos);
}

TEST(Npz, RefusesOverlappingMembers) {
  const NpzBytes x = npy_of("|u1", false, "(9,)", counting(9));
  NpzBytes file = zip_of({{"x.npy", x, false}, {"y.npy", x, false}});
  const std::size_t second = file.size() - 22 - 46 - 5;
  for (std::size_t i = 0; i < 4; ++i) file[second + 42 + i] = std::byte{0};  // begins where x does
  EXPECT_NE(refusal(file).find("overlap"), std::string::npos);
}

TEST(Npz, RefusesTwoMembersOfAName) {
  const NpzBytes x = npy_of("|u1", false, "(9,)", counting(9));
  EXPECT_NE(refusal(zip_of({{"x.npy", x, false}, {"x.npy", x, false}})).find("twice"),
            std::string::npos);
}

}  // namespace
}  // namespace triaccel
