#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/core/element_type.h"

namespace triaccel {

/// The format allows 100 MB; as many tensors as we take need less, and a hostile header may cost no
/// more than 64 MiB beyond the file.
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

/// Reads the JSON of a header and checks its form: known fields and types, no key twice, no depth.
/// Sizes and offsets are not compared yet. Throws DataError.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view file_name);

}  // namespace triaccel
