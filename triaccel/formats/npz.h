#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triaccel/formats/safetensors.h"

namespace triaccel {

/// Parses one .npy array of version 1 to 3 into row-major, little-endian values. Unsigned 16-, 32-
/// and 64-bit values become signed ones that hold them. Throws DataError that begins with `place`
/// for anything else, such as objects, complex numbers and sizes that do not match.
StateView parse_npy(std::span<const std::byte> file, std::string_view place);

/// The arrays of `wanted` (all: empty) that an .npz archive holds, stored or deflated, each checked
/// against its checksum. Other members are not decompressed. Throws DataError naming file, member
/// and byte.
std::vector<StateView> parse_npz(std::span<const std::byte> file, std::string_view file_name,
                                 std::span<const std::string> wanted = {});

}  // namespace triaccel
