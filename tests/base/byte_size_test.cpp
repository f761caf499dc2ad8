#include "triaccel/base/byte_size.h"

#include <gtest/gtest.h>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

TEST(ParseByteSize, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_byte_size("300MiB", "test"), 300 * 1048576);
  EXPECT_EQ(parse_byte_size("1.5 GB", "test"), 1500000000);
  EXPECT_EQ(parse_byte_size("4096", "test"), 4096);
}

TEST(ParseByteSize, NamesTheOptionAndTheValueItCannotRead) {
  for (const char* bad : {"", "many", "-3MiB", "3 parsecs", "1e300GiB", "nan"})
    EXPECT_THROW(parse_byte_size(bad, "--budget"), UsageError) << bad;
  try {
    parse_byte_size("3 parsecs", "--budget");
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("parsecs"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--budget"), std::string::npos);
  }
}

TEST(Budget, TakesAShareOfTheDevice) {
  EXPECT_EQ(Budget("80%").bytes_on(1000), 800);
  EXPECT_EQ(Budget("2KiB").bytes_on(1000), 2048);
  EXPECT_EQ(Budget("").bytes_on(1000), 0);
  EXPECT_EQ(Budget("none").bytes_on(1000), 0);
  EXPECT_THROW(Budget("0%").bytes_on(1000), UsageError);
  EXPECT_THROW(Budget("101%").bytes_on(1000), UsageError);
  EXPECT_THROW(Budget("0").bytes_on(1000), UsageError);
}

TEST(ByteText, IsShortAndHasAUnit) {
  EXPECT_EQ(byte_text(0), "0 B");
  EXPECT_EQ(byte_text(300 * 1048576), "300 MiB");
  EXPECT_EQ(byte_text(1536), "1.5 KiB");
}

TEST(ByteText, NamesABudgetThatIsEnough) {
  EXPECT_EQ(byte_text_upwards(300 * 1048576), "300 MiB");
  for (const std::int64_t bytes : {1, 1025, 1537, 104857601, 110000000, 1073741825})
    EXPECT_GE(parse_byte_size(byte_text_upwards(bytes), "test"), bytes) << bytes;
}

}  // namespace
}  // namespace triaccel
