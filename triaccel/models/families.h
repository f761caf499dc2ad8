#pragma once

#include "triaccel/models/model_zoo.h"

namespace triaccel {

// One builder a model; make_model has checked what the options share before it calls one.
Network make_lenet5(const ModelOptions& options);
Network make_resnet18(const ModelOptions& options);
Network make_resnet50(const ModelOptions& options);
Network make_efficientnet_b0(const ModelOptions& options);
Network make_pointnet(const ModelOptions& options);
Network make_plain_pointnet(const ModelOptions& options);
Network make_gpt_small(const ModelOptions& options);
Network make_vit_small(const ModelOptions& options);

/// The width to build: the option's, or the model's own where the option is 0.
inline std::int64_t width_or(const ModelOptions& options, std::int64_t own) {
  return options.width > 0 ? options.width : own;
}

}  // namespace triaccel
