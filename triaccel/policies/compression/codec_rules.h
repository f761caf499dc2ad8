#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/policies/compression/compression_options.h"

namespace triaccel {

/// Whether a tensor may be kept as codes. What is small is not worth it.
bool can_code(const SavedStatistics& tensor, std::int64_t samples);

/// Whether a tensor may be kept as SavedCodec::Levelled: small maps before a norm, with enough
/// elements in a channel to be worth its range.
bool levels_channels(const SavedStatistics& tensor, std::int64_t samples);

/// How a tensor is kept so that every gradient stays the same to the bit.
SavedPlan lossless_plan(const SavedStatistics& tensor);
std::vector<SavedPlan> lossless_plans(std::span<const SavedStatistics> tensors);

/// The same plan for everything that can be coded, the lossless one for the rest: what a system
/// does that does not choose.
std::vector<SavedPlan> uniform_plans(std::span<const SavedStatistics> tensors,
                                     const SavedPlan& plan, std::int64_t samples);

/// Whether backward gets other values than were saved.
bool is_lossy(SavedCodec codec);

/// Least bits of a kind's codes: what a gradient is not linear in takes a bias from errors. 1 where
/// any number will do.
int least_bits(SavedClass kind, const CodecOptions& options);

/// Error of the gradient per error of a tensor, both relative, as far as kinds alone tell. Measured
/// on a ResNet: inputs of norms with a relative error of 0.17 added 0.009 to the gradient's, inputs
/// of convolutions with 0.115 added 0.03.
double usual_sensitivity(SavedClass kind);

/// The tensor's own where it was measured.
double sensitivity_of(const SavedStatistics& tensor);

/// Mean bits of an element's code, of a non-zero's where only those have any; 32 for what is kept
/// whole, 0 for what has no codes.
double mean_bits(const SavedStatistics& tensor, const SavedPlan& plan);

/// Puts plans, one for each of `tensors`, into the plan of a step, and with them the formats of the
/// layers that read the tensors.
void put_saved_plans(StepPlan& step, const SavedCensus& census,
                     const std::vector<SavedStatistics>& tensors,
                     const std::vector<SavedPlan>& plans);

}  // namespace triaccel
