#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triaccel/models/network.h"

namespace triaccel {

struct ModelOptions {
  std::string name = "resnet18";  // one of model_names()
  // resnet, densenet: "imagenet" (7x7/2 and max pool) or "cifar" (3x3/1); vgg: three linear layers
  // at the end, or one
  std::string stem = "imagenet";
  std::int64_t width = 0;           // channels of the first layer, others in proportion; 0: default
  std::int64_t input_channels = 3;  // images and points
  std::int64_t classes = 10;        // gpt has `vocabulary` instead
  std::int64_t image_size = 32;  // pixels per side; fixed by lenet5 and vit, others accept any size
  std::int64_t context_length = 256;  // gpt: maximum sequence length
  std::int64_t vocabulary = 256;      // gpt: number of tokens
  bool transform_nets = false;        // pointnet: learn the alignment of points and of features
};

/// Builds a model with weights initialized from torch's default generator, on the CPU, in training
/// mode. Throws UsageError for invalid options.
///
///   lenet5 resnet18 resnet50 vgg16-bn densenet121
///   efficientnet-b0 vit-small                       [B, C, H, W]  -> [B, classes]
///   pointnet pointnet-plain                         [B, C, N]     -> [B, classes]
///   gpt-small                                       int64 [B, T]  -> [B, T, vocabulary]
Network make_model(const ModelOptions& options);

const std::vector<std::string>& model_names();

}  // namespace triaccel
