#include "triaccel/layers/convolution/live_taps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace triaccel {
namespace {

TEST(LiveTaps, KeepsTheCentreOfAPaddedKernelOnASinglePixel) {
  EXPECT_EQ(live_taps({.map = 1, .kernel = 3, .padding = 1}), (LiveTaps{1, 2, 0}));
}

TEST(LiveTaps, KeepsTheTwoTapsThatAStridedKernelLaysOnTwoPixels) {
  EXPECT_EQ(live_taps({.map = 2, .kernel = 3, .stride = 2, .padding = 1}), (LiveTaps{1, 3, 0}));
}

TEST(LiveTaps, KeepsAKernelThatFitsTheMap) {
  EXPECT_EQ(live_taps({.map = 8, .kernel = 3, .padding = 1}), (LiveTaps{0, 3, 1}));
  EXPECT_EQ(live_taps({.map = 2, .kernel = 3, .padding = 1}), (LiveTaps{0, 3, 1}));
  EXPECT_EQ(live_taps({.map = 8, .kernel = 2, .stride = 2}), (LiveTaps{0, 2, 0}));
}

TEST(LiveTaps, KeepsAKernelThatMeetsOnlyPadding) {
  EXPECT_EQ(live_taps({.map = 1, .kernel = 2, .padding = 1, .dilation = 2}), (LiveTaps{0, 2, 1}));
}

struct Meeting {
  std::int64_t position;
  std::int64_t tap;
  bool operator==(const Meeting&) const = default;
};

/// Which tap of the kernel meets which position of the map, output by output.
std::vector<std::vector<Meeting>> meetings(const TapGeometry& g, std::int64_t first_tap) {
  std::vector<std::vector<Meeting>> outputs;
  for (std::int64_t i = 0; i + g.dilation * (g.kernel - 1) < g.map + 2 * g.padding; i += g.stride) {
    std::vector<Meeting> met;
    for (std::int64_t tap = 0; tap < g.kernel; ++tap) {
      const std::int64_t position = i - g.padding + tap * g.dilation;
      if (position >= 0 && position < g.map) met.push_back({position, first_tap + tap});
    }
    outputs.push_back(met);
  }
  return outputs;
}

template <typename Check>
void for_each_geometry(Check check) {
  for (std::int64_t map = 1; map <= 6; ++map)
    for (std::int64_t kernel = 1; kernel <= 6; ++kernel)
      for (std::int64_t stride = 1; stride <= 4; ++stride)
        for (std::int64_t padding = 0; padding <= 5; ++padding)
          for (std::int64_t dilation = 1; dilation <= 3; ++dilation)
            check({map, kernel, stride, padding, dilation});
}

std::string text_of(const TapGeometry& g) {
  return "map " + std::to_string(g.map) + " kernel " + std::to_string(g.kernel) + " stride " +
         std::to_string(g.stride) + " padding " + std::to_string(g.padding) + " dilation " +
         std::to_string(g.dilation);
}

TEST(LiveTaps, GiveEveryOutputTheSameProductsAsTheWholeKernel) {
  for_each_geometry([](const TapGeometry& g) {
    const LiveTaps live = live_taps(g);
    TapGeometry cropped = g;
    cropped.kernel = live.last - live.first;
    cropped.padding = live.padding;
    ASSERT_GT(cropped.kernel, 0) << text_of(g);
    ASSERT_GE(cropped.padding, 0) << text_of(g);
    ASSERT_EQ(meetings(cropped, live.first), meetings(g, 0)) << text_of(g);
    ASSERT_EQ(output_size(g), static_cast<std::int64_t>(meetings(g, 0).size())) << text_of(g);
  });
}

TEST(LiveTaps, LeaveNoDeadTapAtTheEndsOfAShorterKernel) {
  for_each_geometry([](const TapGeometry& g) {
    const LiveTaps live = live_taps(g);
    if (live.last - live.first == g.kernel) return;
    bool first_met = false, last_met = false;
    for (const std::vector<Meeting>& output : meetings(g, 0))
      for (const Meeting& meeting : output) {
        first_met = first_met || meeting.tap == live.first;
        last_met = last_met || meeting.tap == live.last - 1;
      }
    ASSERT_TRUE(first_met && last_met) << text_of(g);
  });
}

}  // namespace
}  // namespace triaccel
