#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <toml++/toml.h>

#include <bit>
#include <map>

#include "triaccel/base/error.h"
#include "triaccel/formats/toml_document.h"

namespace triaccel {
namespace {

// Any text of printable ASCII and the control characters that need an escape.
rc::Gen<std::string> ascii() {
  return rc::gen::container<std::string>(rc::gen::inRange<char>(1, 0x7f));
}

rc::Gen<TomlValue> value() {
  return rc::gen::oneOf(
      rc::gen::map(rc::gen::arbitrary<bool>(), [](bool v) { return TomlValue(v); }),
      rc::gen::map(rc::gen::arbitrary<std::int64_t>(), [](std::int64_t v) { return TomlValue(v); }),
      rc::gen::map(rc::gen::arbitrary<std::uint64_t>(),
                   [](std::uint64_t bits) {
                     const double v = std::bit_cast<double>(bits);
                     return TomlValue(v == v ? v : 0.0);
                   }),
      rc::gen::map(ascii(), [](const std::string& v) { return TomlValue(v); }));
}

TEST(TomlProperty, WhatIsWrittenReadsBackBitForBit) {
  EXPECT_TRUE(rc::check([] {
    const auto values = *rc::gen::container<std::map<std::pair<int, std::string>, TomlValue>>(
        rc::gen::pair(rc::gen::inRange(0, 3), ascii()), value());
    std::vector<TomlEntry> entries;
    for (const auto& [place, v] : values)
      entries.push_back({.table = place.first == 0 ? "" : "table " + std::to_string(place.first),
                         .key = place.second,
                         .value = v});
    const std::vector<TomlEntry> back = parse_toml(to_toml(entries), "t");
    RC_ASSERT(back.size() == entries.size());
    for (std::size_t i = 0; i < back.size(); ++i) {
      RC_ASSERT(back[i].table == entries[i].table);
      RC_ASSERT(back[i].key == entries[i].key);
      RC_ASSERT(back[i].value == entries[i].value);
    }
  }));
}

// toml++ reads the whole language; what we write means the same to it.
TEST(TomlProperty, AnotherReaderFindsTheSameValues) {
  EXPECT_TRUE(rc::check([] {
    const TomlValue written = *value();
    const std::vector<TomlEntry> entries = {{.table = "t", .key = *ascii(), .value = written}};
    const toml::table document = toml::parse(to_toml(entries));
    const toml::table& table = *document["t"].as_table();
    const toml::node& node = *table.get(entries[0].key);
    std::visit(
        [&](const auto& v) { RC_ASSERT(node.value_exact<std::decay_t<decltype(v)>>() == v); },
        written);
  }));
}

TEST(TomlProperty, AnyTextGivesEntriesOrAPlace) {
  EXPECT_TRUE(rc::check([] {
    const std::string source = *rc::gen::container<std::string>(
        rc::gen::elementOf(std::string("ab=[]{}\"'.,\n\t #1e-_:T\\u\xc3\xa9\xff")));
    try {
      parse_toml(source, "f");
    } catch (const UsageError& error) {
      RC_ASSERT(std::string_view(error.what()).starts_with("f:"));
    }
  }));
}

}  // namespace
}  // namespace triaccel
