#include "triaccel/int8_run/samples.h"

#include <algorithm>
#include <utility>

#include "triaccel/int8/training/state.h"

namespace triaccel {
namespace {

constexpr std::int64_t kAxes = 3;

/// Channel-first planes of a sample to channel last.
template <typename From, typename To, typename Convert>
void interleave(const From* planes, std::int64_t channels, std::int64_t places, To* out,
                Convert convert) {
  for (std::int64_t place = 0; place < places; ++place)
    for (std::int64_t channel = 0; channel < channels; ++channel)
      *out++ = convert(planes[channel * places + place]);
}

/// round((q · 2 / 1023 − 1) · 127), halves away from zero, in whole numbers.
std::int8_t mantissa_of_coordinate(std::uint16_t q) {
  const std::int32_t scaled = (2 * q - kLargestCoordinate) * 127;
  const std::int32_t half = scaled < 0 ? -(kLargestCoordinate / 2) : kLargestCoordinate / 2;
  return static_cast<std::int8_t>((scaled + half) / kLargestCoordinate);
}

}  // namespace

Int8Reader Int8Samples::reader() const {
  return {.inputs = inputs, .exponent = exponent, .read = [this](std::int64_t id, std::int8_t* to) {
            const auto from = mantissas.begin() + id * inputs;
            std::copy(from, from + inputs, to);
            return labels[static_cast<std::size_t>(id)];
          }};
}

Int8Samples int8_images(const ImageSet& set) {
  const std::int64_t places = set.height * set.width;
  Int8Samples samples{.count = set.count,
                      .inputs = places * set.channels,
                      .exponent = int8::kPixelExponent,
                      .labels = {set.labels.begin(), set.labels.end()}};
  std::vector<std::int8_t> planes(set.pixels.size());
  int8::quantise_pixels(set.pixels, planes.data());
  if (set.channels == 1) {
    samples.mantissas = std::move(planes);
    return samples;
  }
  samples.mantissas.resize(planes.size());
  for (std::int64_t i = 0; i < set.count; ++i)
    interleave(planes.data() + i * samples.inputs, set.channels, places,
               samples.mantissas.data() + i * samples.inputs,
               [](std::int8_t mantissa) { return mantissa; });
  return samples;
}

Int8Samples int8_clouds(const PointSet& set) {
  Int8Samples samples{.count = set.count,
                      .inputs = set.points * kAxes,
                      .labels = {set.labels.begin(), set.labels.end()}};
  samples.mantissas.resize(set.coordinates.size());
  const auto size = static_cast<std::size_t>(samples.inputs);
  for (std::size_t at = 0; at + size <= set.coordinates.size(); at += size)
    quantise_cloud(std::span(set.coordinates).subspan(at, size), samples.mantissas.data() + at);
  return samples;
}

void quantise_cloud(std::span<const std::uint16_t> coordinates, std::int8_t* mantissas) {
  interleave(coordinates.data(), kAxes, std::ssize(coordinates) / kAxes, mantissas,
             mantissa_of_coordinate);
}

int8::Batch Int8Batch::gather(const Int8Reader& from, std::span<const std::int64_t> ids) {
  inputs_.resize(ids.size() * static_cast<std::size_t>(from.inputs));
  labels_.resize(ids.size());
  std::int8_t* out = inputs_.data();
  for (std::size_t i = 0; i < ids.size(); ++i, out += from.inputs)
    labels_[i] = from.read(ids[i], out);
  return {.inputs = inputs_.data(),
          .labels = labels_.data(),
          .size = static_cast<std::int32_t>(ids.size()),
          .exponent = from.exponent};
}

std::int64_t Int8Batch::bytes() const {
  return static_cast<std::int64_t>(inputs_.capacity() + 4 * labels_.capacity());
}

}  // namespace triaccel
