#pragma once

#include <cstdint>

namespace triaccel {

/// A convolution along one dimension.
struct TapGeometry {
  std::int64_t map = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // on either side
  std::int64_t dilation = 1;
};

/// The taps [first, last) of the kernel, and the padding with which they alone compute the same
/// output.
struct LiveTaps {
  std::int64_t first = 0;
  std::int64_t last = 0;  // one past
  std::int64_t padding = 0;
  bool operator==(const LiveTaps&) const = default;
};

/// The outputs of a convolution along one dimension; 0 when the kernel does not fit.
std::int64_t output_size(const TapGeometry& geometry);

/// The range of taps that meet the map for at least one output; the others multiply padding only.
/// 3 taps with padding 1 on a map of one pixel: the middle one, without padding. All taps where no
/// symmetric padding would give the shorter kernel the same outputs.
LiveTaps live_taps(const TapGeometry& geometry);

}  // namespace triaccel
