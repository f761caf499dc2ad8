#include "triaccel/int8/training/state.h"

#include <algorithm>
#include <utility>

#include "triaccel/base/error.h"
#include "triaccel/base/random.h"
#include "triaccel/int8/training/random_stream.h"

namespace triaccel::int8 {
namespace {

std::int64_t square_root(std::int64_t value) {  // rounded down
  std::int64_t root = 0;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

std::vector<std::int64_t> shape_of(const Layer& layer) {
  if (layer.kind == LayerKind::Convolution)
    return {layer.out_channels, layer.kernel, layer.kernel, layer.in_channels};
  return {layer.out_channels, layer.in_channels};
}

}  // namespace

WeightGrid xavier_grid(std::int64_t fan_in, std::int64_t fan_out) {
  // bound² = 6 / fans; 2^(2·up) >= bound² with the smallest `up`, which is never above 1.
  const std::int64_t fans = fan_in + fan_out;
  std::int32_t down = -1;  // -up
  while (down < 24 && (std::int64_t{6} << (2 * (down + 1))) <= fans) ++down;
  const std::int64_t squared = (std::int64_t{6} << (14 + 2 * down)) / fans;
  return {.largest = static_cast<std::int32_t>(std::min<std::int64_t>(square_root(squared), 127)),
          .exponent = -down - 7};
}

State initial_state(Network network, std::uint64_t seed) {
  State state;
  state.weights.assign(static_cast<std::size_t>(network.weight_bytes), 0);
  const std::uint64_t key = random_key(seed, RandomStream::InitialWeights, 0);
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    const Layer& layer = network.layers[l];
    const std::int64_t window = std::int64_t{layer.kernel} * layer.kernel;
    const WeightGrid grid = xavier_grid(window * layer.in_channels, window * layer.out_channels);
    state.exponents.push_back(grid.exponent);
    const std::uint32_t levels = 2 * static_cast<std::uint32_t>(grid.largest) + 1;
    for (std::int64_t i = 0; i < layer.weight_count(); ++i) {
      const auto index = static_cast<std::uint64_t>(network.offsets[l] + i);
      const std::uint32_t word = random_words(key, index).words[0];
      const auto level = static_cast<std::int32_t>(bounded(word, levels));
      state.weights[index] = static_cast<std::int8_t>(level - grid.largest);
    }
  }
  state.network = std::move(network);
  return state;
}

std::vector<NamedWeights> export_weights(const State& state) {
  std::vector<NamedWeights> all;
  for (std::size_t l = 0; l < state.network.layers.size(); ++l) {
    const Layer& layer = state.network.layers[l];
    const auto first = state.weights.begin() + state.network.offsets[l];
    all.push_back({.name = layer.name,
                   .shape = shape_of(layer),
                   .data = {first, first + layer.weight_count()},
                   .exponent = state.exponents[l]});
  }
  return all;
}

void import_weights(State& state, std::span<const NamedWeights> weights) {
  for (std::size_t l = 0; l < state.network.layers.size(); ++l) {
    const Layer& layer = state.network.layers[l];
    const auto found = std::find_if(weights.begin(), weights.end(),
                                    [&](const NamedWeights& w) { return w.name == layer.name; });
    require(found != weights.end(), "import_weights", "no weights for layer '", layer.name, "'");
    require(found->shape == shape_of(layer) &&
                found->data.size() == static_cast<std::size_t>(layer.weight_count()),
            "import_weights", "weights of layer '", layer.name,
            "' have the wrong shape: ", found->data.size(), " values, expected ",
            layer.weight_count());
    require(
        std::find(found->data.begin(), found->data.end(), std::int8_t{-128}) == found->data.end(),
        "import_weights", "weights of layer '", layer.name,
        "' hold -128; mantissas are in [-127, 127]");
    std::copy(found->data.begin(), found->data.end(),
              state.weights.begin() + state.network.offsets[l]);
    state.exponents[l] = found->exponent;
  }
}

std::uint64_t state_hash(const State& state) {
  std::uint64_t hash = mixed_hash(0, state.step);
  for (const std::int8_t weight : state.weights)
    hash = mixed_hash(hash, static_cast<std::uint8_t>(weight));
  for (const std::int32_t exponent : state.exponents)
    hash = mixed_hash(hash, static_cast<std::uint32_t>(exponent));
  return hash;
}

void quantise_pixels(std::span<const std::uint8_t> pixels, std::int8_t* mantissas) {
  for (std::size_t i = 0; i < pixels.size(); ++i)
    mantissas[i] = static_cast<std::int8_t>(pixels[i] >> 1);
}

}  // namespace triaccel::int8
