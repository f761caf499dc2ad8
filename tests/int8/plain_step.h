#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "triaccel/int8/fixed_point.h"
#include "triaccel/int8/training/cross_entropy.h"
#include "triaccel/int8/training/random_stream.h"
#include "triaccel/int8/training/train_step.h"

namespace triaccel::int8::plain {

// A step written down from its definition: dense int64 sums, every buffer whole, one weight at a
// time, product -> requantise -> ReLU -> pool in this order. Shares only the one-element functions
// with the library.

using Mantissas = std::vector<std::int8_t>;
using Sums = std::vector<std::int64_t>;

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Activation {
  Mantissas values;
  std::int32_t exponent = 0;
};

/// What one pass leaves: inputs of each layer by [layer][sample], and where maxima came from.
struct Pass {
  std::vector<std::vector<Activation>> inputs;
  std::vector<std::vector<std::vector<std::int32_t>>> sources;  // position of each pooled output
  std::vector<std::vector<std::int32_t>> shifts;
  std::vector<std::vector<std::int32_t>> logits;
  std::vector<std::int32_t> logit_exponents;
};

/// Calls body(position, output channel, input index, weight index) for every product of a layer.
template <typename Body>
void for_each_product(const Layer& layer, Body body) {
  for (std::int32_t y = 0; y < layer.out_height(); ++y)
    for (std::int32_t x = 0; x < layer.out_width(); ++x)
      for (std::int32_t o = 0; o < layer.out_channels; ++o)
        for (std::int32_t ky = 0; ky < layer.kernel; ++ky)
          for (std::int32_t kx = 0; kx < layer.kernel; ++kx) {
            const std::int32_t iy = y + ky - layer.padding, ix = x + kx - layer.padding;
            if (iy < 0 || iy >= layer.height || ix < 0 || ix >= layer.width) continue;
            for (std::int32_t c = 0; c < layer.in_channels; ++c)
              body(y * layer.out_width() + x, o, (iy * layer.width + ix) * layer.in_channels + c,
                   ((o * layer.kernel + ky) * layer.kernel + kx) * layer.in_channels + c);
          }
}

/// The positions that pooled output `pooled` is the maximum of, in order.
inline std::vector<std::int32_t> window(const Layer& layer, std::int32_t pooled) {
  if (layer.pooling == Pooling::None) return {pooled};
  std::vector<std::int32_t> positions;
  if (layer.pooling == Pooling::MaxOverPoints) {
    for (std::int32_t p = 0; p < layer.positions(); ++p) positions.push_back(p);
    return positions;
  }
  const std::int32_t width = layer.out_width();
  const std::int32_t corner = pooled / (width / 2) * 2 * width + pooled % (width / 2) * 2;
  return {corner, corner + 1, corner + width, corner + width + 1};
}

inline Pass forward(const State& state, const Mantissas& weights, const Batch& batch,
                    Exponents convention, const Pass* shifts_of) {
  const Network& network = state.network;
  const std::int64_t samples = batch.size;
  Pass pass;
  std::vector<Activation> current(at(samples));
  for (std::int64_t b = 0; b < samples; ++b) {
    const std::int8_t* first = batch.inputs + b * network.inputs();
    current[at(b)] = {.values = {first, first + network.inputs()}, .exponent = batch.exponent};
  }
  for (std::int32_t l = 0; l < network.layer_count(); ++l) {
    const Layer& layer = network.layers[at(l)];
    const std::int8_t* w = weights.data() + network.offsets[at(l)];
    pass.inputs.push_back(current);
    std::vector<Sums> sums(at(samples), Sums(at(layer.positions() * layer.out_channels)));
    std::vector<std::int32_t> shift(at(samples));
    for (std::int64_t b = 0; b < samples; ++b) {
      for_each_product(layer,
                       [&](std::int32_t p, std::int32_t o, std::int32_t in, std::int32_t weight) {
                         sums[at(b)][at(p * layer.out_channels + o)] +=
                             std::int64_t{current[at(b)].values[at(in)]} * w[weight];
                       });
      std::int64_t largest = 0;
      for (const std::int64_t sum : sums[at(b)]) largest = std::max(largest, sum < 0 ? -sum : sum);
      shift[at(b)] = requant_shift(static_cast<std::uint32_t>(largest));
    }
    if (convention == Exponents::PerTensor)
      std::fill(shift.begin(), shift.end(), *std::max_element(shift.begin(), shift.end()));
    if (shifts_of != nullptr && l + 1 < network.layer_count()) shift = shifts_of->shifts[at(l)];
    pass.shifts.push_back(shift);
    pass.sources.emplace_back(at(samples));
    for (std::int64_t b = 0; b < samples; ++b) {
      const std::int32_t exponent = current[at(b)].exponent + state.exponents[at(l)];
      if (l + 1 == network.layer_count()) {
        pass.logits.emplace_back(sums[at(b)].begin(), sums[at(b)].end());
        pass.logit_exponents.push_back(exponent);
        continue;
      }
      Activation next = {.values = Mantissas(at(layer.outputs())),
                         .exponent = exponent + shift[at(b)]};
      for (std::int32_t pooled = 0; pooled < layer.pooled_positions(); ++pooled) {
        for (std::int32_t o = 0; o < layer.out_channels; ++o) {
          std::int32_t source = -1;
          std::int32_t most = -128;
          for (const std::int32_t p : window(layer, pooled)) {
            const std::int64_t sum = sums[at(b)][at(p * layer.out_channels + o)];
            std::int32_t value = requantise(static_cast<std::int32_t>(sum), shift[at(b)]);
            if (layer.relu) value = std::max(value, 0);
            most = std::max(most, value);
            if (source < 0 || sum > sums[at(b)][at(source * layer.out_channels + o)]) source = p;
          }
          next.values[at(pooled * layer.out_channels + o)] = static_cast<std::int8_t>(most);
          pass.sources[at(l)][at(b)].push_back(source);
        }
      }
      current[at(b)] = next;
    }
  }
  return pass;
}

inline std::int64_t loss(const Pass& pass, const Batch& batch) {
  std::int64_t sum = 0;
  for (std::size_t b = 0; b < pass.logits.size(); ++b)
    sum += cross_entropy(kLossTables, pass.logits[b].data(),
                         static_cast<std::int32_t>(pass.logits[b].size()), pass.logit_exponents[b],
                         batch.labels[b]);
  return sum;
}

inline std::int32_t half_word(std::uint64_t key, std::int64_t index) {
  return static_cast<std::int32_t>(random_half_word(key, static_cast<std::uint64_t>(index)));
}

/// Gradient of layer l from the errors of its outputs, then its update.
inline void update_layer(State& state, const StepOptions& options, std::int32_t l, const Pass& pass,
                         const std::vector<Activation>& errors) {
  const Layer& layer = state.network.layers[at(l)];
  std::int32_t common = -1000000;
  const auto exponent_of = [&](std::size_t b) {
    return errors[b].exponent + pass.inputs[at(l)][b].exponent;
  };
  for (std::size_t b = 0; b < errors.size(); ++b) {
    const Mantissas& e = errors[b].values;
    if (std::any_of(e.begin(), e.end(), [](std::int8_t v) { return v != 0; }))
      common = std::max(common, exponent_of(b));
  }
  Sums gradient(at(layer.weight_count()));
  for (std::size_t b = 0; b < errors.size(); ++b) {
    std::vector<std::int32_t> dense(at(layer.positions() * layer.out_channels));
    for (std::size_t i = 0; i < errors[b].values.size(); ++i) {
      const std::int32_t drop = std::clamp(common - exponent_of(b), 0, 31);
      const std::int32_t source =
          l + 1 == state.network.layer_count() ? 0 : pass.sources[at(l)][b][i];
      dense[at(source * layer.out_channels) + i % at(layer.out_channels)] +=
          round_nearest(errors[b].values[i], drop);
    }
    for_each_product(layer,
                     [&](std::int32_t p, std::int32_t o, std::int32_t in, std::int32_t weight) {
                       gradient[at(weight)] += std::int64_t{dense[at(p * layer.out_channels + o)]} *
                                               pass.inputs[at(l)][b].values[at(in)];
                     });
  }
  std::int64_t largest = 0;
  for (const std::int64_t g : gradient) largest = std::max(largest, g < 0 ? -g : g);
  const std::int32_t shift =
      std::max(0, bit_length(static_cast<std::uint32_t>(largest)) - options.gradient_bits);
  const std::uint64_t key = random_key(options.seed, RandomStream::GradientUpdate, state.step);
  for (std::int64_t i = 0; i < layer.weight_count(); ++i) {
    const std::int64_t index = state.network.offsets[at(l)] + i;
    const auto g = static_cast<std::int32_t>(gradient[at(i)]);
    const std::uint32_t random = static_cast<std::uint32_t>(half_word(key, index))
                                 << std::max(0, shift - 16);
    const std::int32_t move = options.rounding == UpdateRounding::Stochastic
                                  ? round_stochastic(g, shift, random)
                                  : round_pseudo(g, shift);
    state.weights[at(index)] = saturate8(state.weights[at(index)] - move);
  }
}

/// Errors of the layer before l, through the weights as they are.
inline std::vector<Activation> errors_before(const State& state, std::int32_t l, const Pass& pass,
                                             const std::vector<Activation>& errors,
                                             Exponents convention) {
  const Layer& layer = state.network.layers[at(l)];
  const std::int8_t* w = state.weights.data() + state.network.offsets[at(l)];
  std::vector<Sums> sums(errors.size(), Sums(at(layer.inputs())));
  std::vector<std::int32_t> shift(errors.size());
  for (std::size_t b = 0; b < errors.size(); ++b) {
    std::vector<std::int32_t> dense(at(layer.positions() * layer.out_channels));
    for (std::size_t i = 0; i < errors[b].values.size(); ++i) {
      const std::int32_t source =
          l + 1 == state.network.layer_count() ? 0 : pass.sources[at(l)][b][i];
      dense[at(source * layer.out_channels) + i % at(layer.out_channels)] += errors[b].values[i];
    }
    for_each_product(
        layer, [&](std::int32_t p, std::int32_t o, std::int32_t in, std::int32_t weight) {
          sums[b][at(in)] += std::int64_t{dense[at(p * layer.out_channels + o)]} * w[weight];
        });
    std::int64_t largest = 0;
    for (const std::int64_t sum : sums[b]) largest = std::max(largest, sum < 0 ? -sum : sum);
    shift[b] = requant_shift(static_cast<std::uint32_t>(largest));
  }
  if (convention == Exponents::PerTensor)
    std::fill(shift.begin(), shift.end(), *std::max_element(shift.begin(), shift.end()));
  std::vector<Activation> before(errors.size());
  for (std::size_t b = 0; b < errors.size(); ++b) {
    before[b] = {.values = Mantissas(at(layer.inputs())),
                 .exponent = errors[b].exponent + state.exponents[at(l)] + shift[b]};
    for (std::int32_t i = 0; i < layer.inputs(); ++i) {
      const bool alive = pass.inputs[at(l)][b].values[at(i)] > 0;
      before[b].values[at(i)] =
          alive ? requantise(static_cast<std::int32_t>(sums[b][at(i)]), shift[b]) : std::int8_t{0};
    }
  }
  return before;
}

inline std::int32_t step(State& state, const Batch& batch, const StepOptions& options) {
  const Network& network = state.network;
  const std::int32_t boundary = network.layer_count() - options.bp_layers;
  const bool head = boundary > 0 && options.head == Head::ZerothOrder;
  const std::uint64_t noise_key = random_key(options.seed, RandomStream::Perturbation, state.step);
  const Noise noise = make_noise(options.noise);
  const auto z_of = [&](std::int64_t index) {
    return std::int32_t{
        noise_value(noise, static_cast<std::uint16_t>(half_word(noise_key, index)))};
  };
  const auto for_head = [&](auto body) {
    for (std::int32_t l = 0; head && l < boundary; ++l)
      for (std::int64_t i = 0; i < network.layers[at(l)].weight_count(); ++i)
        body(network.offsets[at(l)] + i);
  };
  Mantissas plus = state.weights, minus = state.weights;
  for_head([&](std::int64_t i) {
    plus[at(i)] = saturate8(state.weights[at(i)] + z_of(i));
    minus[at(i)] = saturate8(state.weights[at(i)] - z_of(i));
  });
  const Pass plus_pass = forward(state, plus, batch, options.exponents, nullptr);
  const Pass minus_pass = forward(state, minus, batch, options.exponents,
                                  head && options.shared_shifts ? &plus_pass : nullptr);
  const std::int64_t difference = loss(plus_pass, batch) - loss(minus_pass, batch);
  std::int32_t slope = difference > 0 ? 1 : difference < 0 ? -1 : 0;
  if (options.slope_exponent != kSignOnly) {
    const std::int64_t unit = std::int64_t{batch.size} << options.slope_exponent;
    const std::int64_t size = difference < 0 ? -difference : difference;
    slope *= static_cast<std::int32_t>(std::min<std::int64_t>((2 * size + unit) / (2 * unit), 15));
  }

  const bool clean = !head || options.backprop_pass == BackpropPass::Clean;
  const Pass tail =
      clean ? forward(state, state.weights, batch, options.exponents, nullptr) : minus_pass;
  std::vector<Activation> errors(tail.logits.size());
  for (std::size_t b = 0; b < errors.size(); ++b) {
    errors[b] = {.values = Mantissas(at(network.classes())), .exponent = kLossErrorExponent};
    loss_error(kLossTables,
               summarise_logits(kLossTables, tail.logits[b].data(), network.classes(),
                                tail.logit_exponents[b]),
               tail.logits[b].data(), network.classes(), tail.logit_exponents[b], batch.labels[b],
               random_key(options.seed, RandomStream::LossError, state.step),
               static_cast<std::int64_t>(b), errors[b].values.data());
  }
  for (std::int32_t l = network.layer_count() - 1; l >= boundary; --l) {
    std::vector<Activation> before;
    if (l > boundary) before = errors_before(state, l, tail, errors, options.exponents);
    update_layer(state, options, l, tail, errors);
    errors = before;
  }
  const std::uint64_t rounding_key = random_key(options.seed, RandomStream::SignUpdate, state.step);
  for_head([&](std::int64_t i) {
    const auto random = static_cast<std::uint32_t>(half_word(rounding_key, i));
    const std::int32_t move = options.rounding == UpdateRounding::Stochastic
                                  ? round_stochastic(slope * z_of(i), options.rate_exponent, random)
                                  : round_pseudo(slope * z_of(i), options.rate_exponent);
    state.weights[at(i)] = saturate8(state.weights[at(i)] - move);
  });
  ++state.step;
  return slope;
}

}  // namespace triaccel::int8::plain
