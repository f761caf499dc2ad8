#pragma once

#include <cstdint>

#include "triaccel/int8/cuda/device_network.h"
#include "triaccel/int8/training/perturbation.h"
#include "triaccel/int8/training/weight_update.h"

namespace triaccel::int8::cuda {

inline constexpr std::int32_t kMostStreams = 3;

/// Result of a step in device memory.
struct DeviceStepResult {
  std::int64_t loss[kMostStreams];  // of the plus, minus and clean pass over the batch, 2^-16 bit
  std::int32_t correct[kMostStreams];
  std::int32_t slope;  // of plus - minus, see loss_slope
};

/// Values that change between steps.
struct DeviceProgress {
  std::uint64_t step;  // steps done
  std::uint64_t now;   // the current one
  std::int32_t rate_exponent;
  std::int32_t gradient_bits;
};

/// Arguments of the kernels of a step; all pointers are to device memory.
struct StepArguments {
  DeviceNetwork network = {};
  std::int32_t batch = 0;
  std::int32_t input_exponent = 0;
  std::int32_t backprop = -1;  // the stream whose activations are saved
  bool shared_shifts = true;
  UpdateRounding rounding = UpdateRounding::Stochastic;
  std::int32_t slope_exponent = kSignOnly;
  std::uint32_t saturated_share = 65536;
  std::uint64_t seed = 0;
  Noise noise = {};
  std::int64_t weight_bytes = 0;

  DeviceProgress* progress = nullptr;
  std::int8_t* weights = nullptr;
  std::int32_t* exponents = nullptr;  // one per layer
  std::int8_t* inputs = nullptr;
  std::int32_t* labels = nullptr;

  std::int8_t* panels = nullptr;
  std::int32_t* point_sums[2] = {};         // [sample][stream][point][channel], double-buffered
  std::int8_t* kept = nullptr;              // inputs of the backpropagated layers
  std::int8_t* errors = nullptr;            // of their outputs
  std::int32_t* error_exponents = nullptr;  // [layer][sample], of error · input
  std::int32_t* gradients = nullptr;

  // Reset at the start of a step: first those initialized to zero, then those initialized to the
  // lowest value.
  DeviceStepResult* result = nullptr;
  std::uint32_t* largest = nullptr;           // [point layer][sample][stream]: |sum|
  std::uint32_t* gradient_largest = nullptr;  // [layer]: |sum|
  std::uint32_t* saturated = nullptr;         // [layer]: weights
  std::int32_t* common_exponent = nullptr;    // [layer]
  std::int32_t* pooled = nullptr;             // [sample][stream][channel]: the points' maximum
  std::int64_t zeroed_words = 0;              // from `result` on
  std::int64_t lowest_words = 0;              // from `common_exponent` on

  TRIACCEL_HOST_DEVICE std::int64_t largest_at(std::int32_t layer, std::int32_t sample,
                                               std::int32_t stream) const {
    return (std::int64_t{layer} * batch + sample) * network.streams + stream;
  }
  TRIACCEL_HOST_DEVICE std::int64_t exponent_at(std::int32_t layer, std::int32_t sample) const {
    return std::int64_t{layer} * batch + sample;
  }
  TRIACCEL_HOST_DEVICE std::int8_t* kept_row(const DeviceLayer& layer, std::int32_t sample) const {
    return kept + layer.kept * batch + std::int64_t{sample} * layer.panel_stride;
  }
  TRIACCEL_HOST_DEVICE std::int8_t* error_row(const DeviceLayer& layer, std::int32_t sample) const {
    return errors + layer.error * batch + std::int64_t{sample} * layer.error_stride;
  }
  TRIACCEL_HOST_DEVICE const std::int8_t* panel(const DeviceLayer& layer,
                                                std::int32_t stream) const {
    return panels + layer.panel + stream * layer.panel_size;
  }
};

}  // namespace triaccel::int8::cuda
