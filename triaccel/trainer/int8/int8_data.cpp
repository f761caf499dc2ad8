#include "triaccel/trainer/int8/int8_data.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
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

Int8Data from_images(const DataOptions& options) {
  std::vector<std::string> notices;
  const ImageSplits splits = read_images(options, &notices);
  for (std::string& dropped : finding_notices(splits.findings))
    notices.push_back(std::move(dropped));
  require(options.image_size == 0 || options.image_size == splits.train.width, "--image-size",
          "integer training cannot resize images; these have ", splits.train.width,
          " pixels per side");
  return {.train = int8_images(splits.train),
          .test = int8_images(splits.test),
          .notices = std::move(notices),
          .channels = splits.train.channels,
          .image_size = splits.train.width,
          .classes = splits.train.classes};
}

Int8Data from_clouds(const DataOptions& options) {
  require(options.rotation == 0, "--rotate", "rotates images only, not the point clouds of '",
          options.name, "'");
  const PointSplits splits = read_points(options);
  return {.train = int8_clouds(splits.train),
          .test = int8_clouds(splits.test),
          .notices = finding_notices(splits.findings),
          .channels = kAxes,
          .points = splits.train.points,
          .classes = splits.train.classes};
}

}  // namespace

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
  for (std::int64_t i = 0; i < set.count; ++i)
    interleave(set.coordinates.data() + i * samples.inputs, kAxes, set.points,
               samples.mantissas.data() + i * samples.inputs, mantissa_of_coordinate);
  return samples;
}

Int8Data load_int8_data(const DataOptions& options) {
  require(options.name != "text", "--data",
          "integer networks take images or point clouds, not text");
  Int8Data data = options.name == "modelnet40" ? from_clouds(options) : from_images(options);
  if (data.train.count == 0 || data.test.count == 0)
    throw DataError(text("[--data] no usable record is left in '", options.name,
                         "': ", data.notices.empty() ? "it is empty" : data.notices.front()));
  data.split = split_samples(data.train.count, options);
  return data;
}

int8::Batch Int8Batch::gather(const Int8Samples& samples, std::span<const std::int64_t> ids) {
  inputs_.resize(ids.size() * static_cast<std::size_t>(samples.inputs));
  labels_.resize(ids.size());
  auto out = inputs_.begin();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto from = samples.mantissas.begin() + ids[i] * samples.inputs;
    out = std::copy(from, from + samples.inputs, out);
    labels_[i] = samples.labels[static_cast<std::size_t>(ids[i])];
  }
  return {.inputs = inputs_.data(),
          .labels = labels_.data(),
          .size = static_cast<std::int32_t>(ids.size()),
          .exponent = samples.exponent};
}

std::int64_t Int8Batch::bytes() const {
  return static_cast<std::int64_t>(inputs_.capacity() + 4 * labels_.capacity());
}

}  // namespace triaccel
