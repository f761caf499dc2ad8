#include "triaccel/policies/compression/derived_tensors.h"

#include "triaccel/policies/compression/codec_rules.h"

namespace triaccel {

std::vector<bool> derivable_tensors(std::span<const SavedStatistics> tensors, std::int64_t samples,
                                    const CodecOptions& options) {
  std::vector<bool> derivable(tensors.size(), false);
  for (std::size_t i = 0; options.derive && i < tensors.size(); ++i) {
    const SavedStatistics& tensor = tensors[i];
    // Forward saves a source before what is computed from it, so nothing derives from itself.
    if (tensor.derivation == Derivation::None || tensor.source < 0 ||
        tensor.source >= static_cast<std::int64_t>(i))
      continue;
    const SavedStatistics& source = tensors[static_cast<std::size_t>(tensor.source)];
    derivable[i] = can_code(tensor, samples) && lossless_plan(source).codec == SavedCodec::Raw;
  }
  return derivable;
}

bool source_suffices(Derivation derivation, double source_bits, double source_error,
                     const CodecOptions& options, double slack) {
  switch (derivation) {
    case Derivation::None:
      return false;
    case Derivation::Affine:
      return true;
    case Derivation::Rectified:
      return source_bits >= options.derived_bits * (1 - slack);
    case Derivation::Smooth:
      return source_error * (1 - slack) < options.derived_error;
  }
  return false;
}

}  // namespace triaccel
