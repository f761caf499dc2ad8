#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/core/step_plan.h"
#include "triaccel/policies/compression/compression_options.h"

namespace triaccel {

/// Whether a tensor may be quantized; small ones are not worth it.
bool can_compress(const SavedStatistics& tensor, std::int64_t samples);

/// How a tensor is quantized in groups: Levelled for small maps before a batch norm, LevelledRows
/// before a layer norm, where a channel or row has enough elements to amortize its range.
SavedCodec group_codec_of(const SavedStatistics& tensor, std::int64_t samples);

/// The lossless plan of a tensor: gradients stay bit-identical.
SavedPlan lossless_plan(const SavedStatistics& tensor);
std::vector<SavedPlan> lossless_plans(std::span<const SavedStatistics> tensors);

/// The same with host memory for tensors that lossless plans leave raw, or for a share of their
/// bytes: those saved first, whose copies have most time until backward reads them.
std::vector<SavedPlan> offload_plans(std::span<const SavedStatistics> tensors, double share = 1);

/// The same plan for every compressible tensor, lossless for the rest: the behaviour of a system
/// without per-tensor choice.
std::vector<SavedPlan> uniform_plans(std::span<const SavedStatistics> tensors,
                                     const SavedPlan& plan, std::int64_t samples);

/// Whether backward reads values that differ from those saved.
bool is_lossy(SavedCodec codec);

/// Minimum bits for a kind: errors in tensors that the gradient depends on nonlinearly cause a
/// bias. 1 if unrestricted.
int least_bits(SavedClass kind, const CodecOptions& options);

/// Relative error of the gradient per relative error of a tensor, estimated from its kind. Measured
/// on a ResNet: norm inputs with a relative error of 0.17 added 0.009 to the gradient error,
/// convolution inputs with 0.115 added 0.03.
double usual_sensitivity(SavedClass kind);

/// The measured sensitivity of the tensor if available.
double sensitivity_of(const SavedStatistics& tensor);

/// Mean bits per element (per non-zero where only those are stored); 32 for raw tensors, 0 for
/// those that store no values.
double mean_bits(const SavedStatistics& tensor, const SavedPlan& plan);

/// Sets the plans of `tensors`, and the saved formats of the layers that read them, in a step plan.
void put_saved_plans(StepPlan& step, const SavedCensus& census,
                     const std::vector<SavedStatistics>& tensors,
                     const std::vector<SavedPlan>& plans);

/// Which tensors can be recomputed from another stored tensor.
std::vector<bool> derivable_tensors(std::span<const SavedStatistics> tensors, std::int64_t samples,
                                    const CodecOptions& options);

/// Whether a source with these mean bits and this error is accurate enough to derive a tensor from.
/// `slack`, in [0, 1), is the hysteresis for tensors already derived.
bool source_suffices(Derivation derivation, double source_bits, double source_error,
                     const CodecOptions& options, double slack = 0);

}  // namespace triaccel
