#pragma once

#include "triaccel/base/error.h"
#include "triaccel/base/nearest_name.h"
#include "triaccel/models/model_zoo.h"

namespace triaccel {

// One builder a model; make_model has checked what the options share before it calls one.
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

/// The width to build: the option's, or the model's own where the option is 0.
inline std::int64_t width_or(const ModelOptions& options, std::int64_t own) {
  return options.width > 0 ? options.width : own;
}

/// Whether to begin, or in a VGG to end, as networks for small images do.
inline bool has_cifar_stem(const ModelOptions& options) {
  const std::vector<std::string> stems = {"imagenet", "cifar"};
  require(options.stem == stems[0] || options.stem == stems[1], "make_model", "unknown stem '",
          options.stem, "'", suggestion(options.stem, stems));
  return options.stem == stems[1];
}

}  // namespace triaccel
