#pragma once

#include <span>

#include "triaccel/core/step_report.h"
#include "triaccel/models/network.h"
#include "triaccel/optim/zeroth_order.h"
#include "triaccel/trainer/config/run_config.h"

namespace triaccel {

/// What a configuration says about layers trained by the loss alone.
ZerothOrderOptions zeroth_order_options(const RunConfig& config);

/// Does to a network with a run's first weights what all its steps did, and gives the weights it
/// ended with, bit for bit: of a run of method "zo", from its configuration and its
/// zeroth_order.csv. Running statistics of norms are not redone.
void redo_zeroth_order(const Network& network, const RunConfig& config,
                       std::span<const ZerothOrderStep> steps);

}  // namespace triaccel
