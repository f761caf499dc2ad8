#include "triaccel/core/codec_registry.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/core/byte_codec.h"
#include "triaccel/base/error.h"

namespace triaccel {
namespace {

struct NamedCodec final : RegisteredCodec {
  explicit NamedCodec(std::string codec_name) : name_(std::move(codec_name)) {}
  std::string_view name() const override { return name_; }
  std::int64_t bytes(std::span<const std::int64_t>) const override { return 0; }
  double bits() const override { return 1; }
  std::string name_;
};

TEST(CodecRegistry, FindsACodecByNameAndNumber) {
  const std::uint8_t number = byte_codec();
  EXPECT_EQ(find_registered_codec("one-byte"), number);
  const RegisteredCodec& codec = registered_codec(number);
  EXPECT_EQ(codec.name(), "one-byte");
  EXPECT_EQ(codec.bytes(std::array<std::int64_t, 2>{3, 7}), 21);
  EXPECT_TRUE(codec.shares());
  EXPECT_EQ(registered_codec_names()[number], "one-byte");
  EXPECT_EQ(find_registered_codec("two-bytes"), std::nullopt);
}

TEST(CodecRegistry, RefusesNamesThatAreTakenOrInvalid) {
  byte_codec();
  const std::size_t before = registered_codec_names().size();
  for (const char* name :
       {"one-byte", "raw", "lossless", "offloaded", "compressed", "coded", "bounded", "groups",
        "frequency8", "registered", "", "Two", "two bytes", "two_bytes"})
    EXPECT_THROW(register_codec(std::make_unique<NamedCodec>(name)), UsageError) << name;
  EXPECT_EQ(registered_codec_names().size(), before);
}

TEST(CodecRegistry, RefusesANumberThatWasNotGivenOut) {
  EXPECT_THROW(registered_codec(200), UsageError);
}

}  // namespace
}  // namespace triaccel
