#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "triaccel/data/dataset.h"
#include "triaccel/models/network.h"
#include "triaccel/step/forward_scope.h"
#include "triaccel/telemetry/sink.h"

namespace triaccel {

/// Loss and accuracy of a network over samples of a data set, in evaluation mode, computed as
/// `rules` say. `batch` samples a pass; fewer when the device has no room for them. `alive` is
/// called after each pass.
EvaluationReport evaluate(const Network& network, const Dataset& data,
                          std::span<const std::int64_t> ids, const ForwardRules& rules,
                          std::int64_t batch, c10::Device device,
                          const std::function<void()>& alive = {});

}  // namespace triaccel
