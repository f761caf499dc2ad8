#pragma once

#include <cstdint>

#include "triaccel/policies/controller.h"
#include "triaccel/signals/probe_pass.h"
#include "triaccel/trainer/loop/run_parts.h"

namespace triaccel {

/// What a configuration lets the controller decide, for a run with these parts.
ControlSetup control_setup_for(const RunConfig& config, const RunParts& parts);

/// Of it, how activations are kept.
ActivationOptions activation_options(const RunConfig& config);

/// The least samples a forward pass of the network can take.
std::int64_t smallest_pass_of(const Network& network);

CurvatureOptions curvature_options(const RunConfig& config);

/// Whether a run measures curvature at all.
bool probes_curvature(const RunConfig& config, const RunParts& parts);

}  // namespace triaccel
