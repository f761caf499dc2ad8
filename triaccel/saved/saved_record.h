#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "triaccel/ops/compression/codec_map.h"

namespace triaccel {

/// One tensor as it is kept between forward and backward, shared by all who saved it.
struct SavedRecord {
  std::int64_t bytes = 0;
  std::function<at::Tensor()> decode = {};  // dense; the same each time; only enqueues

  /// What a map makes of it, as the type says, in the pass that decodes it; null: it takes no maps,
  /// or none of rows.
  using DecodeMapped = std::function<at::Tensor(const CodecMap& map, at::ScalarType type)>;
  DecodeMapped decode_mapped = {};
  DecodeMapped decode_rows = {};
};

using SharedRecord = std::shared_ptr<const SavedRecord>;

}  // namespace triaccel
