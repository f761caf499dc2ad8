#pragma once

#include <cstdint>

#include "triaccel/int8/network.h"

namespace triaccel::int8 {

/// One sample of a layer in the backward pass.
struct SampleError {
  const std::int8_t* error = nullptr;     // Layer::outputs()
  const std::int8_t* input = nullptr;     // Layer::inputs(), null where only errors are wanted
  const std::uint8_t* choices = nullptr;  // where each pooled output came from, or null
};

/// sums[Layer::inputs()] = Wᵀ · error. Only the pooled positions carry an error, so the work is
/// that of the pooled outputs.
void input_error_sums(const Layer& layer, const std::int8_t* weights, const SampleError& sample,
                      std::int32_t* sums);

/// row[Layer::depth()] += the gradient of one output channel's weights from one sample.
void add_gradient_row(const Layer& layer, std::int32_t channel, const SampleError& sample,
                      std::int32_t* row);

}  // namespace triaccel::int8
