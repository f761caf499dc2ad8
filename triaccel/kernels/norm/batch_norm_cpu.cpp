#include "triaccel/kernels/norm/batch_norm.h"

#include <algorithm>
#include <vector>

#include "triaccel/base/divide_up.h"
#include "triaccel/base/host_device.h"
#include "triaccel/kernels/common/even_pixels.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

namespace triaccel::kernels::cpu {
namespace {

constexpr std::int64_t kWorthThreads = 65536;  // elements before waking other threads pays

/// Rows of one turn: as floats they stay in the nearest caches, and they are few enough that a sum
/// over them is exact to FP32's last digits. A function of the shape alone, so that the number of
/// threads changes no bit.
std::int64_t rows_of_turn(const NormMap& map) {
  return std::clamp<std::int64_t>(4096 / map.channels, 16, 256);
}

std::int64_t turns_of(const NormMap& map) { return divide_up(map.rows, rows_of_turn(map)); }

struct Turn {
  std::int64_t index, first, rows, channels;  // `first` element of the map
  std::int64_t count() const { return rows * channels; }
};

Turn turn_at(const NormMap& map, std::int64_t index) {
  const std::int64_t step = rows_of_turn(map);
  return {index, index * step * map.channels, std::min(step, map.rows - index * step),
          map.channels};
}

/// body(turn, buffers), where the four buffers each hold a turn.
template <typename Body>
void for_each_turn(const NormMap& map, Body body) {
  const std::int64_t turns = turns_of(map);
  const auto size = static_cast<std::size_t>(rows_of_turn(map) * map.channels);
#pragma omp parallel if (turns > 1 && map.rows * map.channels >= kWorthThreads)
  {
    std::vector<float> buffers(4 * size);
    float* const places[4] = {buffers.data(), buffers.data() + size, buffers.data() + 2 * size,
                              buffers.data() + 3 * size};
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < turns; ++i) body(turn_at(map, i), places);
  }
}

template <typename Stored>
TRIACCEL_WIDE_VECTORS void read(const typename Stored::Word* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Stored::value(from[i]);
}

template <typename Stored>
TRIACCEL_WIDE_VECTORS void write(const float* from, std::int64_t count, typename Stored::Word* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Stored::word(from[i]);
}

/// The turn as floats: where it lies, or converted in `buffer`. Null stays null.
const float* read_turn(const Turn& turn, const void* map, FloatType type, float* buffer) {
  if (map == nullptr) return nullptr;
  if (type == FloatType::F32) return static_cast<const float*>(map) + turn.first;
  with_stored_type(type, [&]<typename Stored>(Stored) {
    read<Stored>(static_cast<const typename Stored::Word*>(map) + turn.first, turn.count(), buffer);
  });
  return buffer;
}

void write_turn(const Turn& turn, const float* from, void* map, FloatType type) {
  with_stored_type(type, [&]<typename Stored>(Stored) {
    write<Stored>(from, turn.count(), static_cast<typename Stored::Word*>(map) + turn.first);
  });
}

TRIACCEL_WIDE_VECTORS void turn_moments(const Turn& turn, const float* x, float* __restrict mean,
                                        float* __restrict squares) {
  std::fill_n(mean, turn.channels, 0.0f);
  std::fill_n(squares, turn.channels, 0.0f);
  for (std::int64_t row = 1; row < turn.rows; ++row)
    for (std::int64_t c = 0; c < turn.channels; ++c) {
      const float distance = x[row * turn.channels + c] - x[c];
      mean[c] += distance;
      squares[c] += distance * distance;
    }
  for (std::int64_t c = 0; c < turn.channels; ++c) {
    const Moments moments =
        moments_around(x[c], static_cast<float>(turn.rows), mean[c], squares[c]);
    mean[c] = moments.mean;
    squares[c] = moments.squares;
  }
}

/// Coefficients by channel, as loops want them.
struct ChannelCoefficients {
  std::vector<float> mean, scale, bias;

  explicit ChannelCoefficients(std::int64_t channels)
      : mean(static_cast<std::size_t>(channels)), scale(mean.size()), bias(mean.size()) {}

  void set(std::int64_t channel, const NormCoefficients& one) {
    const auto c = static_cast<std::size_t>(channel);
    mean[c] = one.mean;
    scale[c] = one.scale;
    bias[c] = one.bias;
  }
};

TRIACCEL_WIDE_VECTORS void normalise_turn(const Turn& turn, const ChannelCoefficients& channels,
                                          const float* x, float* __restrict y) {
  const float* const mean = channels.mean.data();
  const float* const scale = channels.scale.data();
  const float* const bias = channels.bias.data();
  for (std::int64_t row = 0; row < turn.rows; ++row)
    for (std::int64_t c = 0; c < turn.channels; ++c) {
      const std::int64_t i = row * turn.channels + c;
      y[i] = normalised(x[i], mean[c], scale[c], bias[c]);
    }
}

/// body(stored type, the row's values, their factor) for the rows of a turn.
template <typename Body>
void for_each_factor(const Turn& turn, const SampleFactors& factors, FloatType type, float* values,
                     Body body) {
  const std::int64_t first_row = turn.first / turn.channels;
  with_stored_type(type, [&]<typename Stored>(Stored stored) {
    const auto* words = static_cast<const typename Stored::Word*>(factors.values);
    for (std::int64_t row = 0; row < turn.rows; ++row)
      body(stored, values + row * turn.channels,
           Stored::value(words[(first_row + row) / factors.rows]));
  });
}

/// `y` times its samples' factors.
void scale_turn(const Turn& turn, const SampleFactors& factors, FloatType type, float* y) {
  if (factors.values == nullptr) return;
  for_each_factor(turn, factors, type, y, [&](auto, float* row, float factor) {
    for (std::int64_t c = 0; c < turn.channels; ++c) row[c] *= factor;
  });
}

TRIACCEL_WIDE_VECTORS void end_turn(const Turn& turn, const float* residual, Activation activation,
                                    float* __restrict y) {
  const std::int64_t count = turn.count();
  if (residual != nullptr)
    for (std::int64_t i = 0; i < count; ++i) y[i] += residual[i];
  if (activation == Activation::Relu)
    for (std::int64_t i = 0; i < count; ++i) y[i] = relu(y[i]);
  if (activation == Activation::Silu)
    for (std::int64_t i = 0; i < count; ++i) y[i] = silu(y[i]);
}

/// A turn's ReLU mask, from the output as it is stored.
void write_relu_mask(const NormForward& params, const Turn& turn, float* buffer) {
  const float* const y = read_turn(turn, params.output, params.map.type, buffer);
  const std::int64_t wide = mask_bits_per_byte(params.map);
  std::uint8_t* const to = params.relu_mask + turn.first / wide;
  for (std::int64_t i = 0; i < turn.count() / wide; ++i) {
    unsigned relu_mask = 0;
    for (std::int64_t k = 0; k < wide; ++k) relu_mask |= (y[i * wide + k] <= 0.0f ? 0u : 1u) << k;
    to[i] = static_cast<std::uint8_t>(relu_mask);
  }
}

void normalise(const NormForward& params, const ChannelCoefficients& channels) {
  const bool norms_residual = params.residual_norm.mean != nullptr;
  ChannelCoefficients of_residual(norms_residual ? params.map.channels : 0);
  if (norms_residual)
    for (std::int64_t c = 0; c < params.map.channels; ++c)
      of_residual.set(c, norm_coefficients(params.residual_norm, c));
  for_each_turn(params.map, [&](const Turn& turn, float* const* buffers) {
    const float* const x = read_turn(turn, params.input, params.map.type, buffers[0]);
    const float* residual = read_turn(turn, params.residual, params.map.type, buffers[1]);
    if (norms_residual) {
      normalise_turn(turn, of_residual, residual, buffers[3]);
      residual = buffers[3];
    }
    normalise_turn(turn, channels, x, buffers[2]);
    scale_turn(turn, params.factors, params.map.type, buffers[2]);
    end_turn(turn, residual, params.activation, buffers[2]);
    write_turn(turn, buffers[2], params.output, params.map.type);
    if (params.relu_mask != nullptr) write_relu_mask(params, turn, buffers[0]);
  });
}

/// As the map's type holds the sums; `sum` may be one of the two.
template <typename Stored>
TRIACCEL_WIDE_VECTORS void add_rounded(const float* first, const float* second, std::int64_t count,
                                       float* sum) {
  for (std::int64_t i = 0; i < count; ++i)
    sum[i] = Stored::value(Stored::word(first[i] + second[i]));
}

/// The added gradient of a turn, zero where it has no pixel. Null: none.
const float* read_added(const NormBackward& params, const Turn& turn, float* buffer) {
  if (params.added_gradient == nullptr || params.added_pixels.height == 0)
    return read_turn(turn, params.added_gradient, params.map.type, buffer);
  const EvenPixelIndex<std::int64_t, PlainDivide> index(params.added_pixels);
  const std::int64_t first_row = turn.first / turn.channels;
  for (std::int64_t row = 0; row < turn.rows; ++row) {
    float* const to = buffer + row * turn.channels;
    const std::int64_t even = index.even_of(first_row + row);
    if (even < 0) {
      std::fill_n(to, turn.channels, 0.0f);
      continue;
    }
    with_stored_type(params.map.type, [&]<typename Stored>(Stored) {
      read<Stored>(
          static_cast<const typename Stored::Word*>(params.added_gradient) + even * turn.channels,
          turn.channels, to);
    });
  }
  return buffer;
}

/// A turn's gradient under the map's `relu_mask`.
void mask_turn(const Turn& turn, const std::uint8_t* relu_mask, std::int64_t wide,
               const float* output_gradient, float* __restrict gradient) {
  for (std::int64_t i = 0; i < turn.count(); ++i) {
    const unsigned byte = relu_mask[(turn.first + i) / wide];
    gradient[i] = mask_bit(byte, static_cast<int>(i % wide)) ? output_gradient[i] : 0.0f;
  }
}

/// The output's gradient into the one behind an activation without a kept mask.
TRIACCEL_WIDE_VECTORS void slope_turn(const Turn& turn, const ChannelCoefficients& channels,
                                      const float* x, const float* output_gradient,
                                      Activation activation, float* __restrict gradient) {
  const float* const mean = channels.mean.data();
  const float* const scale = channels.scale.data();
  const float* const bias = channels.bias.data();
  if (activation == Activation::Relu) {
    for (std::int64_t row = 0; row < turn.rows; ++row)
      for (std::int64_t c = 0; c < turn.channels; ++c) {
        const std::int64_t i = row * turn.channels + c;
        const bool shut = normalised(x[i], mean[c], scale[c], bias[c]) <= 0.0f;  // NaN: open
        gradient[i] = shut ? 0.0f : output_gradient[i];
      }
  } else if (activation == Activation::Silu) {
    for (std::int64_t row = 0; row < turn.rows; ++row)
      for (std::int64_t c = 0; c < turn.channels; ++c) {
        const std::int64_t i = row * turn.channels + c;
        gradient[i] = output_gradient[i] * silu_slope(normalised(x[i], mean[c], scale[c], bias[c]));
      }
  } else {
    std::copy_n(output_gradient, turn.count(), gradient);
  }
}

/// The gradient behind the activation into the one behind the factors, as the map's type holds it.
void scale_gradient(const NormBackward& params, const Turn& turn, float* gradient) {
  if (params.factors.values == nullptr) return;
  for_each_factor(turn, params.factors, params.map.type, gradient,
                  [&]<typename Stored>(Stored, float* row, float factor) {
                    for (std::int64_t c = 0; c < turn.channels; ++c)
                      row[c] = Stored::value(Stored::word(row[c] * factor));
                  });
}

struct MaskedTurn {
  const float* x;   // the input
  float* gradient;  // behind the activation
};

MaskedTurn read_masked(const NormBackward& params, const ChannelCoefficients& channels,
                       const Turn& turn, float* const* buffers) {
  const FloatType type = params.map.type;
  const float* const x = read_turn(turn, params.input, type, buffers[0]);
  const float* incoming = read_turn(turn, params.output_gradient, type, buffers[1]);
  if (const float* const added = read_added(params, turn, buffers[2])) {
    with_stored_type(type, [&]<typename Stored>(Stored) {
      add_rounded<Stored>(incoming, added, turn.count(), buffers[1]);
    });
    incoming = buffers[1];
  }
  if (params.relu_mask != nullptr)
    mask_turn(turn, params.relu_mask, mask_bits_per_byte(params.map), incoming, buffers[3]);
  else
    slope_turn(turn, channels, x, incoming, params.activation, buffers[3]);
  return {x, buffers[3]};
}

TRIACCEL_WIDE_VECTORS void turn_sums(const Turn& turn, const float* mean, const float* x,
                                     const float* gradient, float* __restrict sum,
                                     float* __restrict product) {
  std::fill_n(sum, turn.channels, 0.0f);
  std::fill_n(product, turn.channels, 0.0f);
  for (std::int64_t row = 0; row < turn.rows; ++row)
    for (std::int64_t c = 0; c < turn.channels; ++c) {
      const std::int64_t i = row * turn.channels + c;
      sum[c] += gradient[i];
      product[c] += gradient[i] * (x[i] - mean[c]);
    }
}

TRIACCEL_WIDE_VECTORS void differentiate_turn(const Turn& turn, const ChannelCoefficients& channels,
                                              const float* gradient_mean, const float* slope,
                                              const float* x, float* __restrict gradient) {
  const float* const mean = channels.mean.data();
  const float* const scale = channels.scale.data();
  for (std::int64_t row = 0; row < turn.rows; ++row)
    for (std::int64_t c = 0; c < turn.channels; ++c) {
      const std::int64_t i = row * turn.channels + c;
      gradient[i] =
          input_gradient(gradient[i], x[i] - mean[c], scale[c], gradient_mean[c], slope[c]);
    }
}

/// Two numbers per channel from every turn.
struct TurnSums {
  explicit TurnSums(const NormMap& map)
      : channels(map.channels),
        first(static_cast<std::size_t>(turns_of(map) * map.channels)),
        second(first.size()) {}

  std::int64_t channels;
  std::vector<float> first, second;

  float* first_of(std::int64_t turn) { return first.data() + turn * channels; }
  float* second_of(std::int64_t turn) { return second.data() + turn * channels; }
};

}  // namespace

void batch_norm_train(const NormForward& params, const NormBatchStatistics& statistics) {
  const NormMap& map = params.map;
  TurnSums sums(map);
  for_each_turn(map, [&](const Turn& turn, float* const* buffers) {
    const float* const x = read_turn(turn, params.input, map.type, buffers[0]);
    turn_moments(turn, x, sums.first_of(turn.index), sums.second_of(turn.index));
  });
  ChannelCoefficients coefficients(map.channels);
  const auto rows = static_cast<float>(map.rows);
#pragma omp parallel for schedule(static) if (turns_of(map) * map.channels >= kWorthThreads)
  for (std::int64_t c = 0; c < map.channels; ++c) {
    const Moments all = merged_moments(static_cast<int>(turns_of(map)), [&](int i) {
      return Moments{static_cast<float>(turn_at(map, i).rows), sums.first_of(i)[c],
                     sums.second_of(i)[c]};
    });
    statistics.mean[c] = all.mean;
    statistics.inverse_deviation[c] = inverse_deviation_of(all.squares / rows, params.eps);
    if (float* running = statistics.running_mean)
      running[c] = moved_average(running[c], all.mean, statistics.momentum);
    if (float* running = statistics.running_variance)
      running[c] = moved_average(running[c], all.squares / (rows - 1), statistics.momentum);
    coefficients.set(c, norm_coefficients(all.mean, statistics.inverse_deviation[c], params.weight,
                                          params.bias, c));
  }
  if (params.output != nullptr) normalise(params, coefficients);
}

void batch_norm_infer(const NormForward& params, NormKnownStatistics statistics) {
  ChannelCoefficients coefficients(params.map.channels);
  for (std::int64_t c = 0; c < params.map.channels; ++c)
    coefficients.set(c, norm_coefficients(params, statistics, c));
  normalise(params, coefficients);
}

void batch_norm_backward(const NormBackward& params) {
  const NormMap& map = params.map;
  ChannelCoefficients coefficients(map.channels);
  for (std::int64_t c = 0; c < map.channels; ++c)
    coefficients.set(c, norm_coefficients(params.mean[c], params.inverse_deviation[c],
                                          params.weight, params.bias, c));
  TurnSums sums(map);
  for_each_turn(map, [&](const Turn& turn, float* const* buffers) {
    const MaskedTurn masked = read_masked(params, coefficients, turn, buffers);
    if (params.residual_gradient != nullptr)
      write_turn(turn, masked.gradient, params.residual_gradient, map.type);
    scale_gradient(params, turn, masked.gradient);
    turn_sums(turn, params.mean, masked.x, masked.gradient, sums.first_of(turn.index),
              sums.second_of(turn.index));
  });
  std::vector<float> gradient_mean(static_cast<std::size_t>(map.channels));
  std::vector<float> slope(gradient_mean.size());
  for (std::int64_t c = 0; c < map.channels; ++c) {
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < turns_of(map); ++i) {
      sum += double{sums.first_of(i)[c]};
      product += double{sums.second_of(i)[c]};
    }
    const float inverse = params.inverse_deviation[c];
    if (params.bias_gradient != nullptr) params.bias_gradient[c] = static_cast<float>(sum);
    if (params.weight_gradient != nullptr)
      params.weight_gradient[c] = static_cast<float>(product) * inverse;
    const NormGradientCoefficients one =
        gradient_coefficients(static_cast<float>(sum), static_cast<float>(product), inverse,
                              static_cast<float>(map.rows));
    gradient_mean[static_cast<std::size_t>(c)] = one.gradient_mean;
    slope[static_cast<std::size_t>(c)] = one.slope;
  }
  if (params.input_gradient == nullptr) return;
  for_each_turn(map, [&](const Turn& turn, float* const* buffers) {
    const MaskedTurn masked = read_masked(params, coefficients, turn, buffers);
    scale_gradient(params, turn, masked.gradient);
    differentiate_turn(turn, coefficients, gradient_mean.data(), slope.data(), masked.x,
                       masked.gradient);
    write_turn(turn, masked.gradient, params.input_gradient, map.type);
  });
}

}  // namespace triaccel::kernels::cpu
