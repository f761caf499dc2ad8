#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/precision.h"

namespace triaccel {

/// The format allows 100 MB; less suffices for the supported number of tensors and limits the
/// memory of a malicious header to 64 MiB beyond the file.
inline constexpr std::size_t kMaxSafetensorsHeader = std::size_t{16} << 20;

/// One tensor as a safetensors header describes it. Offsets count from the end of the header.
struct TensorEntry {
  std::string name = {};
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors = {};  // sorted by offset, names unique
  std::map<std::string, std::string> metadata = {};
};

/// Parses the JSON of a header and checks its structure: known fields and types, unique keys, no
/// nesting. Does not compare sizes and offsets. Throws DataError.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file_name);

}  // namespace triaccel
