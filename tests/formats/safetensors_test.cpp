#include "triaccel/formats/safetensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <fstream>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

Bytes file_of(std::string_view header, std::size_t data_bytes) {
  Bytes file(8 + header.size() + data_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

TensorFile parse(Bytes file) {
  return parse_safetensors(std::make_shared<const Bytes>(std::move(file)), "model.safetensors");
}

TensorFile parse(std::string_view header, std::size_t data_bytes) {
  return parse(file_of(header, data_bytes));
}

/// The message of the DataError that a header makes; empty when it is taken.
std::string complaint(std::string_view header, std::size_t data_bytes = 0) {
  try {
    parse(header, data_bytes);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

Bytes written(const std::vector<StateView>& tensors,
              const std::map<std::string, std::string>& metadata = {}) {
  Bytes file;
  write_safetensors(
      [&](std::span<const std::byte> bytes) {
        file.insert(file.end(), bytes.begin(), bytes.end());
      },
      tensors, metadata);
  return file;
}

TEST(Safetensors, ReadsTheExampleOfTheFormat) {
  const TensorFile file = parse(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[1,3],"data_offsets":[4,10]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}  )",
      10);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[0].shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.tensors[0].bytes.size(), 4u);
  EXPECT_EQ(file.tensors[1].type, ElementType::F16);
  EXPECT_EQ(file.tensors[1].shape, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(file.metadata.at("format"), "pt");
}

TEST(Safetensors, TakesAFileWithoutTensors) { EXPECT_TRUE(parse("{}", 0).tensors.empty()); }

TEST(Safetensors, TakesTensorsWithoutElements) {
  const TensorFile file = parse(R"({"z":{"dtype":"F32","shape":[0,3],"data_offsets":[1,1]},)"
                                R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("b":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}})",
                                1);
  EXPECT_EQ(file.tensors.size(), 3u);
}

TEST(Safetensors, TensorsOwnTheBytesTogether) {
  std::vector<StateView> tensors = parse(written({number_state<float>("w", {2.5f})})).tensors;
  float value = 0;
  std::memcpy(&value, tensors.at(0).bytes.data(), sizeof value);
  EXPECT_EQ(value, 2.5f);
}

TEST(Safetensors, RefusesALengthThatIsNotThere) {
  for (std::size_t size = 0; size < 8; ++size) EXPECT_THROW(parse(Bytes(size)), DataError);
  Bytes file = file_of("{}", 0);
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{100'000'001}, std::uint64_t{1} << 63, UINT64_MAX}) {
    std::memcpy(file.data(), &length, 8);
    EXPECT_THROW(parse(file), DataError) << length;
  }
}

TEST(Safetensors, SaysThatAnotherFileIsNone) {
  const std::string_view toml = "[model]\nname = \"lenet5\"\n";
  const auto* bytes = reinterpret_cast<const std::byte*>(toml.data());
  try {
    parse(Bytes(bytes, bytes + toml.size()));
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("not a safetensors file"), std::string::npos)
        << error.what();
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  const Bytes file =
      written({number_state<float>("weight", {1, 2, 3}), number_state<std::uint8_t>("rng", {1, 2})},
              {{"format", "triaccel"}});
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_THROW(parse(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size))),
                 DataError)
        << size;
}

TEST(Safetensors, RefusesHeadersOfAnotherForm) {
  const std::string tensor = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  for (const std::string& header : std::vector<std::string>{
           "",
           " {}",
           "[]",
           "{",
           "{}}",
           "{}x",
           "\xEF\xBB\xBF{}",
           R"({"a":1})",
           R"({"a":"b"})",
           R"({"a":null})",
           R"({"a":true})",
           R"({"a":[]})",
           R"({"a":{}})",
           R"({"a":{"b":{}}})",
           R"({"a":)" + tensor + R"(,"a":)" + tensor + "}",
           R"({"\u0061":)" + tensor + R"(,"a":)" + tensor + "}",
           "{\"\xff\":" + tensor + "}",
           R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})",
           R"({"a":{"dtype":"U8","shape":[1]}})",
           R"({"a":{"dtype":"U8","data_offsets":[0,1]}})",
           R"({"a":{"shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})",
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1e0]}})",
           R"({"__metadata__":{"a":1}})",
           R"({"__metadata__":{"a":{}}})",
           R"({"__metadata__":[]})",
           R"({"__metadata__":{"a":"1","a":"2"}})",
           R"({"__metadata__":{},"__metadata__":{}})",
           std::string("{}\0", 3)})
    EXPECT_NE(complaint(header, 1), "") << header;
}

TEST(Safetensors, RefusesOffsetsThatDoNotTileTheData) {
  for (
      const char* header :
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
       R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       R"({"a":{"dtype":"U16","shape":[2],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[18446744073709551615,1]}})",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,184467440737095516160]}})"})
    EXPECT_NE(complaint(header, 2), "") << header;
}

TEST(Safetensors, SaysWhichTensorAndTypeItCannotRead) {
  const std::string message =
      complaint(R"({"fc.weight":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1);
  EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
  EXPECT_NE(message.find("fc.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("F8_E4M3 are not supported"), std::string::npos) << message;
}

TEST(Safetensors, StopsAtHostileDepthRankAndCount) {
  EXPECT_NE(complaint(R"({"a":)" + std::string(1'000'000, '[')), "");
  EXPECT_NE(complaint(std::string(1'000'000, '{')), "");
  EXPECT_NE(complaint("{\"" + std::string(std::size_t{5} << 20, 'a')).find("too long"),
            std::string::npos);
  std::string shape = "1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  EXPECT_NE(complaint(R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", 1),
            "");
  std::string many = "{";
  for (int i = 0; i <= 100'000; ++i)
    many +=
        text(i == 0 ? "" : ",", "\"", i, R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  EXPECT_NE(complaint(many + "}").find("more than 100000 tensors"), std::string::npos);
}

TEST(Safetensors, AlignsEveryTensorToItsElements) {
  const TensorFile file =
      parse(written({number_state<std::uint8_t>("a", {1, 2, 3}), number_state<float>("b", {1}),
                     number_state<double>("c", {1}), number_state<std::uint8_t>("d", {}),
                     number_state<std::int64_t>("e", {1})}));
  ASSERT_EQ(file.tensors.size(), 5u);
  const std::byte* start = file.tensors[0].bytes.data();
  for (const StateView& tensor : file.tensors)
    EXPECT_EQ((tensor.bytes.data() - start) % size_of(tensor.type), 0) << tensor.name;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(start) % 8, 0u);
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const StateView good = number_state<float>("w", {1});
  StateView short_of_bytes = good;
  short_of_bytes.shape = {2};
  StateView negative = good;
  negative.shape = {-1, -1};
  StateView reserved = good;
  reserved.name = "__metadata__";
  StateView not_text = good;
  not_text.name = "\xff";
  for (const StateView& bad : {short_of_bytes, negative, reserved, not_text})
    EXPECT_THROW(written({bad}), UsageError) << bad.name;
  EXPECT_THROW(written({good, good}), UsageError);
}

TEST(Safetensors, RefusesAHugeFileByItsFirstBytes) {
  std::string name = (fs::temp_directory_path() / "triaccel-XXXXXX").string();
  const fs::path directory = ::mkdtemp(name.data());
  for (const std::string_view start :
       {std::string_view("PK\3\4zipped pickle"), {"\2\0\0\0\0\0\0\0{}", 10}}) {
    std::ofstream(directory / "file", std::ios::binary) << start;
    fs::resize_file(directory / "file", std::uintmax_t{1} << 39);  // no disk holds it, nor memory
    EXPECT_THROW(read_safetensors(directory / "file"), DataError);
  }
  fs::remove_all(directory);
}

TEST(Safetensors, WritesAFileInFullOrNotAtAll) {
  std::string name = (fs::temp_directory_path() / "triaccel-XXXXXX").string();
  const fs::path directory = ::mkdtemp(name.data());
  const fs::path path = directory / "model.safetensors";
  write_safetensors(path, std::vector{number_state<float>("w", {1})}, {{"step", "1"}});
  const StateView twice = number_state<float>("w", {2});
  EXPECT_THROW(write_safetensors(path, std::vector{twice, twice}), UsageError);
  EXPECT_EQ(read_safetensors(path).metadata.at("step"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
  EXPECT_THROW(write_safetensors(directory / "none" / "x", std::vector{twice}), StorageError);
  EXPECT_THROW(read_safetensors(directory / "none"), DataError);
  for (const char* other : {"model.safetensors.tmp", "model.safetensors.partial"})
    std::ofstream(directory / other) << "the user's own";
  write_safetensors(path, std::vector{number_state<float>("w", {2})});
  EXPECT_EQ(fs::file_size(directory / "model.safetensors.tmp"), 14u);
  EXPECT_EQ(fs::file_size(directory / "model.safetensors.partial"), 14u);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 3);
  fs::remove_all(directory);
}

}  // namespace
}  // namespace triaccel
