#include "triaccel/kernels/excitation/squeeze_excite.h"

#include <vector>

#include "triaccel/kernels/common/float_type_math.h"
#include "triaccel/kernels/norm/batch_norm_math.h"

namespace triaccel::kernels::cpu {
namespace {

std::vector<float> floats(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count));
}

/// One sample's numbers of an array [sample][channel].
template <typename Stored>
auto* row(const void* array, const ExciteShape& shape, std::int64_t sample) {
  return static_cast<const typename Stored::Word*>(array) + sample * shape.channels;
}
template <typename Stored>
auto* row(void* array, const ExciteShape& shape, std::int64_t sample) {
  return static_cast<typename Stored::Word*>(array) + sample * shape.channels;
}

template <typename Stored>
void forward_sample(const ExciteShape& shape, const ExciteLayers& layers,
                    const ExciteForward& params, std::int64_t sample) {
  const auto* means = row<Stored>(params.means, shape, sample);
  auto* gates = row<Stored>(params.gates, shape, sample);
  float* hidden = params.hidden + sample * shape.hidden;
  for (std::int64_t r = 0; r < shape.hidden; ++r) {
    hidden[r] = layers.squeeze_bias[r];
    for (std::int64_t c = 0; c < shape.channels; ++c)
      hidden[r] += layers.squeeze[r * shape.channels + c] * Stored::value(means[c]);
  }
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    float sum = layers.excite_bias[c];
    for (std::int64_t r = 0; r < shape.hidden; ++r)
      sum += layers.excite[c * shape.hidden + r] * silu(hidden[r]);
    gates[c] = Stored::word(sigmoid(sum));
  }
}

template <typename Stored>
void backward_sample(const ExciteShape& shape, const ExciteLayers& layers,
                     const ExciteBackward& params, std::int64_t sample) {
  const auto* gates = row<Stored>(params.gates, shape, sample);
  const auto* gradients = row<Stored>(params.gates_gradient, shape, sample);
  auto* of_means = row<Stored>(params.means_gradient, shape, sample);
  const float* hidden = params.hidden + sample * shape.hidden;
  float* of_hidden = params.hidden_gradient + sample * shape.hidden;
  for (std::int64_t r = 0; r < shape.hidden; ++r) {
    float sum = 0;
    for (std::int64_t c = 0; c < shape.channels; ++c)
      sum += layers.excite[c * shape.hidden + r] *
             sigmoid_gradient(Stored::value(gates[c]), Stored::value(gradients[c]));
    of_hidden[r] = sum * silu_slope(hidden[r]);
  }
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    float sum = 0;
    for (std::int64_t r = 0; r < shape.hidden; ++r)
      sum += layers.squeeze[r * shape.channels + c] * of_hidden[r];
    of_means[c] = Stored::word(sum);
  }
}

void store(const std::vector<float>& values, const ExciteGradient& into) {
  with_stored_type(into.type, [&]<typename Stored>(Stored) {
    auto* words = static_cast<typename Stored::Word*>(into.values);
    for (std::size_t i = 0; i < values.size(); ++i) words[i] = Stored::word(values[i]);
  });
}

template <typename Stored>
void sum_parameters(const ExciteShape& shape, const ExciteParameters& params) {
  const std::int64_t channels = shape.channels, hidden = shape.hidden;
  std::vector<float> squeeze = floats(hidden * channels), excite = floats(channels * hidden);
  std::vector<float> squeeze_bias = floats(hidden), excite_bias = floats(channels);
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    const auto* means = row<Stored>(params.means, shape, sample);
    const auto* gates = row<Stored>(params.gates, shape, sample);
    const auto* gradients = row<Stored>(params.gates_gradient, shape, sample);
    for (std::int64_t c = 0; c < channels; ++c) {
      const float of_gate = sigmoid_gradient(Stored::value(gates[c]), Stored::value(gradients[c]));
      excite_bias[static_cast<std::size_t>(c)] += of_gate;
      for (std::int64_t r = 0; r < hidden; ++r) {
        const std::int64_t at = sample * hidden + r;
        excite[static_cast<std::size_t>(c * hidden + r)] += of_gate * silu(params.hidden[at]);
        squeeze[static_cast<std::size_t>(r * channels + c)] +=
            params.hidden_gradient[at] * Stored::value(means[c]);
      }
    }
    for (std::int64_t r = 0; r < hidden; ++r)
      squeeze_bias[static_cast<std::size_t>(r)] += params.hidden_gradient[sample * hidden + r];
  }
  store(squeeze, params.squeeze);
  store(excite, params.excite);
  store(squeeze_bias, {params.squeeze_bias});
  store(excite_bias, {params.excite_bias});
}

}  // namespace

void excite_forward(const ExciteShape& shape, const ExciteLayers& layers,
                    const ExciteForward& params) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    for (std::int64_t i = 0; i < shape.samples; ++i)
      forward_sample<Stored>(shape, layers, params, i);
  });
}

void excite_backward(const ExciteShape& shape, const ExciteLayers& layers,
                     const ExciteBackward& params) {
  with_stored_type(shape.type, [&]<typename Stored>(Stored) {
    for (std::int64_t i = 0; i < shape.samples; ++i)
      backward_sample<Stored>(shape, layers, params, i);
  });
}

void excite_parameters(const ExciteShape& shape, const ExciteParameters& params) {
  with_stored_type(shape.type,
                   [&]<typename Stored>(Stored) { sum_parameters<Stored>(shape, params); });
}

}  // namespace triaccel::kernels::cpu
