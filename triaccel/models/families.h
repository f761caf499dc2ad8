#pragma once

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

}  // namespace triaccel
