#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/compression/masks/mask_codecs_cases.h"

namespace triaccel::kernels {
namespace {

using namespace mask_cases;

bool wanted_bit(MaskElement type, MaskTest test, float value) {
  if (type == MaskElement::Bool) return value != 0;
  return std::isnan(value) || (test == MaskTest::Positive ? value > 0 : value != 0);
}

TEST(BitMask, HasABitForEachElementThatPassesTheTest) {
  for (const std::int64_t count : mask_counts())
    for (const MaskElement type : kElements)
      for (const MaskTest test : kTests)
        with_mask_element(type, [&]<typename Element>(Element) {
          std::vector<typename Element::Word> elements;
          for (std::int64_t i = 0; i < count; ++i)
            elements.push_back(Element::rounded(awkward_value(i)));
          std::vector<std::uint32_t> words(static_cast<std::size_t>(mask_bytes(count) / 4), ~0u);
          std::vector<std::uint32_t> wanted(words.size());
          for (std::int64_t i = 0; i < count; ++i)
            if (wanted_bit(type, test, awkward_value(i)))
              wanted[static_cast<std::size_t>(i / 32)] |= 1u << i % 32;
          cpu::encode_mask({type, count}, elements.data(), test, words.data());
          EXPECT_EQ(words, wanted) << count << " of type " << static_cast<int>(type);
        });
}

TEST(BitMask, TurnsBitsIntoTheValue) {
  const float third = 1.0f / 3;
  for (const std::int64_t count : mask_counts())
    for (const MaskElement type : kElements)
      with_mask_element(type, [&]<typename Element>(Element) {
        std::vector<std::uint32_t> words(static_cast<std::size_t>(mask_bytes(count) / 4));
        for (std::size_t w = 0; w < words.size(); ++w) words[w] = random_words(8, w).words[0];
        std::vector<typename Element::Word> found(static_cast<std::size_t>(count), 77), wanted;
        for (std::int64_t i = 0; i < count; ++i)
          wanted.push_back(Element::rounded(
              words[static_cast<std::size_t>(i / 32)] >> i % 32 & 1u ? third : 0.0f));
        cpu::decode_mask({type, count}, words.data(), {.value = third}, found.data());
        EXPECT_EQ(found, wanted) << count << " of type " << static_cast<int>(type);
        cpu::decode_mask({type, count}, words.data(), {.from_memory = &third}, found.data());
        EXPECT_EQ(found, wanted) << count << " of type " << static_cast<int>(type);
      });
}

TEST(WindowCodec, NumbersTheTapsOfAWindowRowByRow) {
  // Windows of 3 x 3 with stride 2 and padding 1 on 4 x 5 pixels begin at rows -1 and 1.
  const WindowPlaces places = {
      .count = 6, .rows = fitted_windows(4, 3, 2, 1), .columns = fitted_windows(5, 3, 2, 1)};
  const std::int64_t indices[] = {0, 7, 9, 5, 16, 19};
  std::uint32_t taps = 0;
  cpu::encode_windows(places, indices, &taps);
  EXPECT_EQ(taps, 0x761774u);
}

TEST(WindowCodec, GivesEveryIndexBack) {
  for (const WindowCase& each : window_cases()) {
    std::vector<std::uint32_t> taps(tap_words(each.places), ~0u);
    std::vector<std::int64_t> found(each.indices.size(), -1);
    cpu::encode_windows(each.places, each.indices.data(), taps.data());
    cpu::decode_windows(each.places, taps.data(), found.data());
    EXPECT_EQ(found, each.indices)
        << each.places.rows.window << " x " << each.places.columns.window;
  }
}

TEST(WindowCodec, TakesTwoFourOrEightBits) {
  EXPECT_EQ(window_bytes(64, 4), 16);
  EXPECT_EQ(window_bytes(64, 9), 32);
  EXPECT_EQ(window_bytes(64, 25), 64);
  EXPECT_EQ(window_bytes(65, 4), 20);
}

}  // namespace
}  // namespace triaccel::kernels
