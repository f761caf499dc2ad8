#include "triaccel/telemetry/report/plot_frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace triaccel {
namespace {

RC_GTEST_PROP(RoundTicks, EncloseTheDataAtRoundDistances, (double a, double b)) {
  RC_PRE(std::isfinite(a) && std::isfinite(b));
  PlotRange data;
  data.include(a);
  data.include(b);
  const PlotTicks ticks = round_ticks(data, 5);
  RC_ASSERT(ticks.values.size() >= 2u && ticks.values.size() <= 7u);
  const double slack = ticks.step * 1e-6;
  RC_ASSERT(ticks.values.front() <= data.low + slack);
  RC_ASSERT(ticks.values.back() >= data.high - slack);
  const double leading = ticks.step / std::pow(10, std::floor(std::log10(ticks.step) + 1e-9));
  RC_ASSERT(std::abs(leading - 1) < 1e-6 || std::abs(leading - 2) < 1e-6 ||
            std::abs(leading - 5) < 1e-6);
}

RC_GTEST_PROP(RoundTicks, HaveLabelsThatDiffer, (std::uint16_t low, std::uint16_t width)) {
  const PlotTicks ticks = round_ticks({low / 100.0, low / 100.0 + (width + 1) / 1000.0}, 5);
  std::set<std::string> labels;
  for (const double value : ticks.values) labels.insert(tick_text(value, ticks.step));
  RC_ASSERT(labels.size() == ticks.values.size());
}

RC_GTEST_PROP(Thinned, KeepsTheExtremesTheEndsAndTheOrder, (std::vector<std::int16_t> heights)) {
  std::vector<PlotPoint> points;
  for (const std::int16_t y : heights)
    points.push_back({static_cast<double>(points.size()), 1.0 * y});
  const std::vector<PlotPoint> kept = thinned(points, 10);
  RC_ASSERT(kept.size() <= 10u);
  RC_ASSERT(kept.empty() == points.empty());
  PlotRange all;
  PlotRange seen;
  for (const PlotPoint& p : points) all.include(p.y);
  for (const PlotPoint& p : kept) seen.include(p.y);
  RC_ASSERT(all.low == seen.low && all.high == seen.high);
  for (std::size_t i = 1; i < kept.size(); ++i) RC_ASSERT(kept[i - 1].x < kept[i].x);
  if (!points.empty()) RC_ASSERT(kept.back().x == points.back().x);
}

TEST(RoundTicks, StandAtTheNumbersAPersonWouldChoose) {
  EXPECT_EQ(round_ticks({0, 8}).values, (std::vector<double>{0, 2, 4, 6, 8}));
  EXPECT_EQ(round_ticks({0, 300}).values, (std::vector<double>{0, 100, 200, 300}));
  EXPECT_EQ(tick_text(0.30000000000000004, 0.1), "0.3");
  EXPECT_EQ(tick_text(-1e-20, 0.1), "0");
}

TEST(RoundTicks, TakeConstantAndUnusableData) {
  const double infinity = std::numeric_limits<double>::infinity();
  PlotRange nothing;
  nothing.include(infinity);
  nothing.include(std::nan(""));
  EXPECT_TRUE(nothing.empty());
  for (const PlotRange range : {nothing, PlotRange{0, 0}, PlotRange{5, 5}, PlotRange{-5, -5},
                                PlotRange{1e99, 1e100}, PlotRange{1e-300, 2e-300}})
    EXPECT_GE(round_ticks(range).values.size(), 2u);
}

}  // namespace
}  // namespace triaccel
