#include "triaccel/layers/convolution/live_taps.h"

#include "triaccel/base/divide_up.h"

namespace triaccel {
namespace {

/// Whether some output reads the map through this tap.
bool meets_map(const TapGeometry& g, std::int64_t tap, std::int64_t outputs) {
  const std::int64_t start = tap * g.dilation - g.padding;  // position seen by output 0
  const std::int64_t first = start >= 0 ? 0 : divide_up(-start, g.stride);
  return first < outputs && start + first * g.stride < g.map;
}

}  // namespace

std::int64_t output_size(const TapGeometry& g) {
  const std::int64_t room = g.map + 2 * g.padding - g.dilation * (g.kernel - 1) - 1;
  return room < 0 ? 0 : room / g.stride + 1;
}

LiveTaps live_taps(const TapGeometry& g) {
  const LiveTaps all{.first = 0, .last = g.kernel, .padding = g.padding};
  const std::int64_t outputs = output_size(g);
  LiveTaps live = all;
  while (live.first < live.last && !meets_map(g, live.first, outputs)) ++live.first;
  while (live.last > live.first && !meets_map(g, live.last - 1, outputs)) --live.last;
  live.padding = g.padding - live.first * g.dilation;
  TapGeometry cropped = g;
  cropped.kernel = live.last - live.first;
  cropped.padding = live.padding;
  const bool same = cropped.kernel > 0 && cropped.padding >= 0 && output_size(cropped) == outputs;
  return same ? live : all;
}

}  // namespace triaccel
