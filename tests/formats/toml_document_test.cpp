#include "triaccel/formats/toml_document.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "triaccel/base/error.h"

namespace triaccel {
namespace {

std::string refusal(std::string_view source) {
  try {
    parse_toml(source, "run.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(nothing refused)";
}

bool starts_with(const std::string& message, std::string_view start) {
  return message.starts_with(start);
}

TEST(ParseToml, GivesEntriesInTheOrderTheyAreWritten) {
  const auto entries = parse_toml(
      "name = \"first\"\n"
      "[train]\n"
      "epochs = 3\n"
      "  lr = 0.1\n"
      "[data]\n"
      "flip = true\n",
      "run.toml");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].table, "");
  EXPECT_EQ(std::get<std::string>(entries[0].value), "first");
  EXPECT_EQ(entries[1].table, "train");
  EXPECT_EQ(entries[1].key, "epochs");
  EXPECT_EQ(std::get<std::int64_t>(entries[1].value), 3);
  EXPECT_EQ(std::get<double>(entries[2].value), 0.1);
  EXPECT_EQ(entries[2].line, 4);
  EXPECT_EQ(entries[2].column, 3);
  EXPECT_EQ(std::get<bool>(entries[3].value), true);
}

TEST(ParseToml, TakesADottedKeyAsATable) {
  const auto entries = parse_toml("train.lr = 1.0\ntrain . 'batch size' = 3\n", "run.toml");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].table, "train");
  EXPECT_EQ(entries[1].key, "batch size");
}

TEST(ParseToml, ReadsEveryFormOfANumber) {
  const auto integer = [](std::int64_t value) { return TomlValue(value); };
  const std::vector<std::pair<std::string, TomlValue>> cases = {
      {"0", integer(0)},
      {"-17", integer(-17)},
      {"+99", integer(99)},
      {"1_000", integer(1000)},
      {"0xDEAD_beef", integer(0xdeadbeef)},
      {"0o755", integer(0755)},
      {"0b1101", integer(13)},
      {"9223372036854775807", integer(std::numeric_limits<std::int64_t>::max())},
      {"-9223372036854775808", integer(std::numeric_limits<std::int64_t>::min())},
      {"3.14", 3.14},
      {"-0.0", -0.0},
      {"5e+22", 5e22},
      {"1E06", 1e6},
      {"6.626e-34", 6.626e-34},
      {"123e-5", 123e-5},
      {"9_224.5_5", 9224.55}};
  for (const auto& [written, value] : cases)
    EXPECT_EQ(parse_toml("x = " + written, "t").at(0).value, value) << written;
}

TEST(ParseToml, RefusesWhatIsNoNumberAtItsPlace) {
  for (const char* written : {"01",
                              "1_",
                              "_1",
                              "1__0",
                              "1.",
                              ".5",
                              "1.e5",
                              "1_e5",
                              "1e",
                              "1e5.0",
                              "0x",
                              "-0x1",
                              "0x_1",
                              "0b2",
                              "0xg",
                              "+",
                              "--1",
                              "1a",
                              "9223372036854775808",
                              "1e999",
                              "1.5.2",
                              "0x-1"})
    EXPECT_TRUE(starts_with(refusal(text("x = ", written)), "run.toml:1:5: ")) << written;
}

TEST(ParseToml, ReadsEveryFormOfAString) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("a\tb \u00e9 \U0001F600 \"\\")", "a\tb \xc3\xa9 \xf0\x9f\x98\x80 \"\\"},
      {R"('C:\no\escape')", R"(C:\no\escape)"},
      {"\"\"\"\nfirst\r\nsecond \\\n   \n  joined\"\"\"", "first\nsecond joined"},
      {"'''\n''quoted'''''", "''quoted''"},
      {"\"\"\"\"\"\"", ""},
      {"''", ""}};
  for (const auto& [written, value] : cases)
    EXPECT_EQ(std::get<std::string>(parse_toml("x = " + written, "t").at(0).value), value);
}

TEST(ParseToml, RefusesBrokenStringsAndCharacters) {
  for (const char* written : {"\"a", "'a", "\"a\nb\"", "\"\"\"a", "\"\\x\"", "\"\\u12\"",
                              "\"\\ud800\"", "\"\\U00110000\"", "\"\x01\"", "\"\xff\"",
                              "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"a\" b", "1\r2", "''''''''''"})
    EXPECT_TRUE(starts_with(refusal(text("x = ", written)), "run.toml:1:")) << written;
}

TEST(ParseToml, CountsColumnsInCharacters) {
  EXPECT_TRUE(starts_with(refusal("\"\xc3\xa9\xc3\xa9\" 1"), "run.toml:1:6: "));
}

TEST(ParseToml, SaysThatAStringNeedsQuotes) {
  EXPECT_EQ(refusal("[train]\nmethod = amp\n"),
            "run.toml:2:10: a string needs quotes: train.method = \"amp\"");
}

TEST(ParseToml, RefusesWhatIsThereTwice) {
  for (const char* written : {"a = 1\na = 2", "[a]\n[a]", "a = 1\n[a]", "a.b = 1\n[a]",
                              "a.b = 1\na = 1", "a.b = 1\na.b = 1", "a = 1\na.b = 1"})
    EXPECT_TRUE(starts_with(refusal(written), "run.toml:2:1: ")) << written;
}

TEST(ParseToml, ErrorsNameFileLineAndColumn) {
  EXPECT_TRUE(starts_with(refusal("[train]\nlr = = 3\n"), "run.toml:2:6: "));
  EXPECT_TRUE(starts_with(refusal("lr = 1\nlr = 2\n"), "run.toml:2:"));
  EXPECT_TRUE(starts_with(refusal("[train\n"), "run.toml:1:"));
}

TEST(ParseToml, RefusesWhatAConfigurationHasNoUseForWithItsPlace) {
  EXPECT_TRUE(starts_with(refusal("[a]\nb = [1, 2]\n"), "run.toml:2:5: 'a.b' is an array"));
  EXPECT_TRUE(starts_with(refusal("b = []\n"), "run.toml:1:5: 'b' is an array"));
  EXPECT_TRUE(starts_with(refusal("[[a]]\nb = 1\n"), "run.toml:1:"));
  EXPECT_TRUE(starts_with(refusal("b = {c = 1}\n"), "run.toml:1:5: 'b' is an inline table"));
  EXPECT_TRUE(starts_with(refusal("[a.b]\nc = 1\n"), "run.toml:1:"));
  EXPECT_TRUE(starts_with(refusal("a.b.c = 1\n"), "run.toml:1:"));
  EXPECT_TRUE(starts_with(refusal("a = 2020-01-01\n"), "run.toml:1:5: 'a' is a date"));
  EXPECT_TRUE(starts_with(refusal("a = 10:00:00\n"), "run.toml:1:5: 'a' is a date or time"));
}

TEST(ParseToml, SurvivesDeepNesting) {
  const int depth = 100'000;
  std::string dotted = "a", arrays = "a = ", tables = "a = ";
  for (int i = 0; i < depth; ++i) {
    dotted += ".a";
    arrays += "[";
    tables += "{a=";
  }
  for (const std::string& source : {dotted + " = 1", "[" + dotted + "]", arrays, tables})
    EXPECT_THROW(parse_toml(source, "run.toml"), UsageError);
}

TEST(ParseToml, RefusesAHugeText) {
  EXPECT_THROW(parse_toml(std::string((1 << 20) + 1, '#'), "run.toml"), UsageError);
}

TEST(ParseToml, EveryTruncationIsEntriesOrATypedError) {
  const std::string source = "s = \"a\\u00e9\\\"\"\n[t]\nx = -1.5e-3\ny = 'lit'\nz = 0xff\n";
  for (std::size_t n = 0; n < source.size(); ++n) try {
      parse_toml(std::string_view(source).substr(0, n), "run.toml");
    } catch (const UsageError& error) {
      EXPECT_TRUE(starts_with(error.what(), "run.toml:")) << error.what();
    }
}

TEST(ToToml, WritesTablesInOrderWithKeysWithoutATableFirst) {
  const std::vector<TomlEntry> entries = {{.table = "train", .key = "lr", .value = 0.1},
                                          {.table = "data", .key = "name", .value = "mnist"},
                                          {.table = "train", .key = "epochs", .value = 3l},
                                          {.table = "", .key = "seed", .value = 0l}};
  EXPECT_EQ(to_toml(entries),
            "seed = 0\n\n[train]\nlr = 0.1\nepochs = 3\n\n[data]\nname = \"mnist\"\n");
}

TEST(ToToml, WritesFloatsThatStayFloats) {
  for (const double value : {1.0, -0.0, 1e300, 5e-324, 0.1, 123456789.0, 1e22}) {
    const std::vector<TomlEntry> entries = {{.key = "x", .value = value}};
    const double back = std::get<double>(parse_toml(to_toml(entries), "t").at(0).value);
    EXPECT_EQ(back, value);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_toml(std::vector<TomlEntry>{{.key = "x", .value = -infinity}}), "x = -inf\n");
  const auto nan =
      parse_toml(to_toml(std::vector<TomlEntry>{{.key = "x", .value = std::nan("")}}), "t");
  EXPECT_TRUE(std::isnan(std::get<double>(nan.at(0).value)));
}

TEST(ToToml, EscapesStringsAndKeys) {
  const std::string awkward = "a\"b\\c\n\t\r\x01\x7f \xc3\xa9 # = [x]";
  const std::vector<TomlEntry> entries = {{.table = "a b", .key = awkward, .value = awkward}};
  const auto back = parse_toml(to_toml(entries), "t");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].table, "a b");
  EXPECT_EQ(back[0].key, awkward);
  EXPECT_EQ(std::get<std::string>(back[0].value), awkward);
}

}  // namespace
}  // namespace triaccel
