#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "triaccel/models/model_zoo.h"

namespace triaccel {

/// A network of every part the full one has, small enough for a test.
inline ModelOptions slim(const std::string& name) {
  return {.name = name,
          .width = name == "vit-small" || name == "gpt-small" ? 64 : 8,
          .context_length = 8,
          .transform_nets = true};
}

/// Random input of the given shape: tokens for gpt, numbers for all others.
inline at::Tensor sample_input(const ModelOptions& options,
                               const std::vector<std::int64_t>& shape) {
  if (options.name == "gpt-small") return torch::randint(options.vocabulary, shape, torch::kInt64);
  return torch::randn(shape);
}

/// A batch of two that fits the options.
inline at::Tensor sample_input(const ModelOptions& options) {
  if (options.name == "gpt-small") return sample_input(options, {2, options.context_length});
  if (options.name.starts_with("pointnet"))
    return sample_input(options, {2, options.input_channels, 32});
  return sample_input(options, {2, options.input_channels, options.image_size, options.image_size});
}

}  // namespace triaccel
