#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace triaccel {

/// How one tensor that autograd saves is kept between forward and backward.
enum class SavedCodec : std::uint8_t {
  Raw,           // as it is, by reference
  Shape,         // not at all: backward reads its sizes only
  Mask,          // one bit per element: backward reads its sign, or two values occur
  Window,        // places of maxima, within their pooling windows
  Groups,        // a few bits per element, a range for every 256 elements
  Levelled,      // the same of maps whose channels are brought to 0 … 1 before
  NonZeros,      // a mask, and the quantized non-zero elements
  Frequency,     // quantized cosine transform of blocks, with bits per band
  Derived,       // rebuilt from another stored tensor by an elementwise map
  Registered,    // by a codec that the program registered, see codec_registry.h
  Host,          // as it is, in host memory; one below kLeastHostBytes by reference
  LevelledRows,  // as Groups, of rows of the last dimension that are brought to 0 … 1 before
};

inline constexpr int kSavedCodecs = 12;

constexpr std::string_view name_of(SavedCodec codec) {
  constexpr std::string_view kNames[] = {"raw",     "shape",      "mask",     "window",
                                         "groups",  "levelled",   "nonzeros", "frequency",
                                         "derived", "registered", "host",     "levelled-rows"};
  return kNames[static_cast<std::size_t>(codec)];
}

/// Whether elements share ranges in groups, as they are or levelled before.
constexpr bool is_of_groups(SavedCodec codec) {
  return codec == SavedCodec::Groups || codec == SavedCodec::Levelled ||
         codec == SavedCodec::LevelledRows;
}

inline constexpr int kFrequencyBands = 5;

/// What happens to one saved tensor. Widths are in eighths of a bit, so that plans are whole
/// numbers and their sizes exact.
struct SavedPlan {
  SavedCodec codec = SavedCodec::Raw;
  std::uint8_t block = 0;    // Frequency: 8, 7 or 4 elements per side
  std::uint8_t eighths = 0;  // Groups, levelled or not: per element. NonZeros: of the space for
                             // quantized values, spread over all elements, zeros too
  std::array<std::uint8_t, kFrequencyBands> band_eighths = {};  // Frequency; 0: the band is dropped
  std::uint8_t registered = 0;                                  // Registered: the codec's number
  bool operator==(const SavedPlan&) const = default;
};

}  // namespace triaccel
