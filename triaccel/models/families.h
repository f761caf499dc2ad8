#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {

// One builder per model; make_model checks the common options before it calls one.
Network make_lenet5(const ModelOptions& options);
Network make_resnet18(const ModelOptions& options);
Network make_resnet50(const ModelOptions& options);
Network make_vgg16_bn(const ModelOptions& options);
Network make_densenet121(const ModelOptions& options);
Network make_efficientnet_b0(const ModelOptions& options);
Network make_pointnet(const ModelOptions& options);
Network make_plain_pointnet(const ModelOptions& options);
Network make_gpt_small(const ModelOptions& options);
Network make_vit_small(const ModelOptions& options);

/// The width option, or the model's default if it is 0.
inline std::int64_t width_or(const ModelOptions& options, std::int64_t own) {
  return options.width > 0 ? options.width : own;
}

/// Whether to use the stem (VGG: the classifier) for small images.
inline bool has_cifar_stem(const ModelOptions& options) {
  const std::vector<std::string> stems = {"imagenet", "cifar"};
  require(options.stem == stems[0] || options.stem == stems[1], "--model", "unknown stem '",
          options.stem, "'", suggestion(options.stem, stems));
  return options.stem == stems[1];
}

struct AttentionOptions {
  std::int64_t heads = 1;
  bool causal = false;   // a token attends to itself and earlier tokens
  double dropout = 0.0;  // on the attention weights; pass 0 outside training
};

/// Self-attention from packed queries, keys and values [B, T, 3 * width] to [B, T, width].
at::Tensor self_attention(const at::Tensor& packed, const AttentionOptions& options);

/// Number of heads of 64 channels (one for smaller widths); throws UsageError if not divisible.
std::int64_t heads_for(std::int64_t width);

/// Kaiming initialization (He et al. 2015) of all 2-d convolutions: normal weights with variance 2
/// / fan_out, zero biases, as in torchvision.
void initialise_convolutions(torch::nn::Module& network);

/// The same for all convolutions and linear layers of a network without norms, with variance 2 /
/// fan_in, so that ReLU layers preserve the scale of activations. PyTorch's default variance is a
/// sixth of that: backpropagation compensates in its first steps, but zeroth-order estimates drown
/// in noise. Returns false, without changes, for a network with norms.
bool initialise_without_norms(torch::nn::Module& network);

}  // namespace triaccel
