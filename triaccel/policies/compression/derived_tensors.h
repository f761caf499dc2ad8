#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triaccel/core/saved_statistics.h"
#include "triaccel/policies/compression/compression_options.h"

namespace triaccel {

/// Which tensors could be computed again from another one whose values are kept.
std::vector<bool> derivable_tensors(std::span<const SavedStatistics> tensors, std::int64_t samples,
                                    const CodecOptions& options);

/// Whether the source's plan is good enough to derive a tensor from: of so many bits on average,
/// with such an error. `slack`, in [0, 1), is for what is derived already.
bool source_suffices(Derivation derivation, double source_bits, double source_error,
                     const CodecOptions& options, double slack = 0);

}  // namespace triaccel
