#include "triaccel/int8/layers/backward.h"

#include <algorithm>
#include <cstring>

#include "triaccel/int8/layers/sums.h"

namespace triaccel::int8 {
namespace {

/// The position of the maximum of a pooled output.
std::int32_t source_position(const Layer& layer, std::int32_t pooled, std::int32_t channel,
                             const std::uint8_t* choices) {
  switch (layer.pooling) {
    case Pooling::None:
      return pooled;
    case Pooling::Max2x2: {
      const std::int32_t index = pooled * layer.out_channels + channel;
      const std::int32_t choice = (choices[index >> 2] >> ((index & 3) * 2)) & 3;
      const std::int32_t width = layer.out_width() / 2;
      const std::int32_t y = 2 * (pooled / width) + choice / 2;
      const std::int32_t x = 2 * (pooled % width) + choice % 2;
      return y * layer.out_width() + x;
    }
    case Pooling::MaxOverPoints:
      return reinterpret_cast<const std::uint16_t*>(choices)[channel];
  }
  return 0;
}

/// Calls body(input offset, weight offset, count) for each run of inputs that a position of the
/// product reads inside the image.
template <typename Body>
void for_each_run(const Layer& layer, std::int32_t position, Body body) {
  if (layer.kind != LayerKind::Convolution) {
    body(position * layer.in_channels, 0, layer.in_channels);
    return;
  }
  const std::int32_t top = position / layer.out_width() - layer.padding;
  const std::int32_t left = position % layer.out_width() - layer.padding;
  const std::int32_t first_x = std::max(0, -left);
  const std::int32_t end_x = std::min(layer.kernel, layer.width - left);
  for (std::int32_t ky = std::max(0, -top); ky < std::min(layer.kernel, layer.height - top); ++ky)
    body(((top + ky) * layer.width + left + first_x) * layer.in_channels,
         (ky * layer.kernel + first_x) * layer.in_channels, (end_x - first_x) * layer.in_channels);
}

/// Calls body(channel, error, next channel, its error) for pairs of non-zero errors of one
/// position; the last may be paired with an error of 0.
template <typename Body>
void for_error_pairs(const std::int8_t* errors, std::int32_t channels, Body body) {
  std::int32_t waiting = -1;
  for (std::int32_t o = 0; o < channels; ++o) {
    if (errors[o] == 0) continue;
    if (waiting < 0) {
      waiting = o;
      continue;
    }
    body(waiting, errors[waiting], o, errors[o]);
    waiting = -1;
  }
  if (waiting >= 0) body(waiting, errors[waiting], waiting, std::int8_t{0});
}

}  // namespace

void input_error_sums(const Layer& layer, const std::int8_t* weights, const SampleError& sample,
                      std::int32_t* sums) {
  std::memset(sums, 0, static_cast<std::size_t>(layer.inputs()) * sizeof(std::int32_t));
  const std::int64_t depth = layer.depth();
  for (std::int32_t p = 0; p < layer.pooled_positions(); ++p) {
    const std::int8_t* errors = sample.error + std::int64_t{p} * layer.out_channels;
    if (layer.pooling == Pooling::None && layer.kind != LayerKind::Convolution) {
      std::int32_t* to = sums + std::int64_t{p} * layer.in_channels;
      for_error_pairs(
          errors, layer.out_channels,
          [&](std::int32_t a, std::int8_t error_a, std::int32_t b, std::int8_t error_b) {
            add_two_scaled(weights + a * depth, error_a, weights + b * depth, error_b,
                           layer.in_channels, to);
          });
      continue;
    }
    for (std::int32_t o = 0; o < layer.out_channels; ++o) {
      if (errors[o] == 0) continue;
      const std::int32_t position = source_position(layer, p, o, sample.choices);
      for_each_run(layer, position, [&](std::int32_t in, std::int32_t at, std::int32_t count) {
        add_scaled(weights + o * depth + at, count, errors[o], sums + in);
      });
    }
  }
}

void add_gradient_row(const Layer& layer, std::int32_t channel, const SampleError& sample,
                      std::int32_t* row) {
  for (std::int32_t p = 0; p < layer.pooled_positions(); ++p) {
    const std::int8_t error = sample.error[std::int64_t{p} * layer.out_channels + channel];
    if (error == 0) continue;
    const std::int32_t position = source_position(layer, p, channel, sample.choices);
    for_each_run(layer, position, [&](std::int32_t in, std::int32_t at, std::int32_t count) {
      add_scaled(sample.input + in, count, error, row + at);
    });
  }
}

}  // namespace triaccel::int8
